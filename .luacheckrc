-- Purity is checked here. Outside the glue a file sees neither `ngx` nor the
-- world (clock, files, processes), so any use of them fails `luacheck openresty`.

std = "luajit"
max_line_length = 120
not_globals = { "io", "os", "print", "debug" }

local GLUE = { std = "ngx_lua", read_globals = { "io" } }

files["openresty/lua/steelyard/io"] = GLUE
files["openresty/lua/steelyard/phase"] = GLUE
files["openresty/spec"] = { std = "+busted", read_globals = { "io", "os", "print" } }
files["openresty/benchmarks"] = { read_globals = { "io" } }
