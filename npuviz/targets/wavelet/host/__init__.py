"""The host side: stand-ins for the compiler command and the runtime, and what they leave for the debugger."""
