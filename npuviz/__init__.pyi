from npuviz.api import Answer as Answer
from npuviz.api import DebugSession as DebugSession
from npuviz.api import OpenArguments as OpenArguments
from npuviz.api import Picture as Picture
from npuviz.api import open_session
from npuviz.api import races as races

open = open_session
__version__: str
