"""Lua modules as bytecode of the nginx under test: Steelyard's, and the libraries that it loads.

Tests start nginx some thousand times. Each start would parse more than a hundred files, which takes half
of its CPU time. The bytecode keeps names and lines, so errors and tracebacks are those of the sources.
"""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from testing.nginx_under_test import LUA_PATH, load_modules

# nginx's own LuaJIT writes the bytecode, because another LuaJIT may have another format. A file that does not
# compile is left out: nginx then finds the source, and its message.
COMPILE = """
daemon off; master_process off; error_log stderr; pid @FOLDER@/nginx.pid;
events {}
http {
  access_log off;
  lua_package_path "@LUA_PATH@;;";
  init_by_lua_block {
    local names = {@NAMES@}
    pcall(require, "steelyard")
    for name in pairs(package.loaded) do
      names[#names + 1] = name
    end
    local folders = {}
    for _, name in ipairs(names) do
      local source = package.searchpath(name, package.path)
      local chunk = source and loadfile(source)
      if chunk then
        local compiled = "@FOLDER@/lib/" .. name:gsub("%.", "/") .. ".lua"
        local folder = compiled:match("^(.*)/")
        if not folders[folder] then
          folders[folder] = true
          os.execute("mkdir -p " .. folder)
        end
        local file = assert(io.open(compiled, "wb"))
        file:write(string.dump(chunk))
        file:close()
      end
    end
    os.exit(0)
  }
}
"""


@functools.cache
def lua_path() -> str:
    """Return nginx's search path for the modules: the bytecode first, then the sources."""
    folder = Path(tempfile.mkdtemp(prefix="steelyard-lua-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)  # workers of nginx may run as another user
    libraries = [Path(pattern.removesuffix("/?.lua")) for pattern in LUA_PATH.split(";")]
    files = [each.relative_to(library) for library in libraries for each in library.rglob("*.lua")]
    names = ", ".join(f'"{".".join(file.with_suffix("").parts)}"' for file in files)
    text = COMPILE.replace("@NAMES@", names).replace("@FOLDER@", str(folder)).replace("@LUA_PATH@", LUA_PATH)
    config = folder / "nginx.conf"
    config.write_text(load_modules() + text)
    command = ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(config)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return f"{folder}/lib/?.lua;{LUA_PATH}"
