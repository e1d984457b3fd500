"""Stand in for the vendor's compiler command and host runtime, and leave what they did for the debugger."""
