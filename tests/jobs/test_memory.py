"""What a process takes beside the work: freed memory, pools of libraries, code that only an import needed."""

import sys
from pathlib import Path

import pytest

from support.programs import output_of

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_code_of_libraries_is_given_back_and_still_works() -> None:
    code = """
import re
from pathlib import Path
import torch
from jobs.memory import give_back_library_code

def mapped():
    return int(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

rows = torch.arange(12.0).view(3, 4)
expected = (rows @ rows.T).tolist()
before = mapped()
give_back_library_code()
after = mapped()
assert (rows @ rows.T).tolist() == expected
print(before, after)
"""
    before, after = map(int, output_of(code).split())
    assert after < before / 2


@linux
def test_code_that_was_changed_since_it_was_mapped_is_kept(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.write_bytes(b"as in the file".ljust(8192))
    code = """
import ctypes, mmap, re, sys
from pathlib import Path
from jobs.memory import give_back_library_code

with open(sys.argv[1], "r+b") as file:
    code = mmap.mmap(file.fileno(), 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
code[:8] = b"patched!"
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), 8192, mmap.PROT_READ | mmap.PROT_EXEC) == 0
assert re.search(f"^{address:x}-\\\\w+ r-xp .*library$", Path("/proc/self/maps").read_text(), re.MULTILINE)
give_back_library_code()
print(ctypes.string_at(address, 8).decode())
"""
    assert output_of(code, library).split() == ["patched!"]


def test_arrow_keeps_no_pool_of_its_own_for_the_command_line() -> None:
    code = """
import sys
from jobs.cli import main
try:
    main(["inspect", "--help"])
except SystemExit:
    import pyarrow
    print(pyarrow.default_memory_pool().backend_name)
"""
    assert output_of(code).split()[-1] == "system"
    assert output_of(code, ARROW_DEFAULT_MEMORY_POOL="mimalloc").split()[-1] == "mimalloc"


def test_reading_a_model_imports_no_computer_algebra() -> None:
    code = """
import sys
from elmo_model.shipped import model_folder
from elmo_model.weights import read_bilm
read_bilm(model_folder("mini-en"))
print("sympy" in sys.modules)
"""
    assert output_of(code).split() == ["False"]
