-- Purity is checked here. Outside the glue a file sees neither `ngx` nor the
-- world (clock, files, processes), so any use of them fails `luacheck openresty`.

std = "luajit"
max_line_length = 120
not_globals = { "io", "os", "print", "debug" }

local GLUE = { std = "ngx_lua", read_globals = { "io", "debug" } }
local SPEC = { std = "+busted", read_globals = { "io", "os", "print", "debug" } }

files["openresty/steelyard/lib/steelyard/io"] = GLUE
files["openresty/steelyard/lib/steelyard/phase"] = GLUE
files["openresty/steelyard/lib/steelyard.lua"] = GLUE
files["openresty/steelyard/lib/steelyard/inference.lua"] = GLUE
files["openresty/steelyard/lib/steelyard/stream.lua"] = GLUE
files["openresty/lua-resty-vnswrr/spec"] = SPEC
files["openresty/steelyard/spec"] = SPEC
files["openresty/tests"] = { std = "ngx_lua", globals = { "math" }, read_globals = { "debug" } }
files["openresty/benchmarks"] = { read_globals = { "io", "os" } }
