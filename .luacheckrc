-- Purity is checked here. Outside the glue a file sees neither `ngx` nor the
-- world (clock, files, processes), so any use of them fails `luacheck openresty`.

std = "luajit"
max_line_length = 120
-- tonumber() takes nan, inf and hex: core/number reads numbers instead.
not_globals = { "io", "os", "print", "debug", "tonumber" }

local GLUE = { std = "ngx_lua", read_globals = { "io", "debug" } }
local SPEC = { std = "+busted", read_globals = { "io", "os", "print", "debug", "tonumber" } }

files["openresty/steelyard/lib/steelyard/core/number.lua"] = { read_globals = { "tonumber" } }

files["openresty/steelyard/lib/steelyard/io"] = GLUE
files["openresty/steelyard/lib/steelyard/phase"] = GLUE
files["openresty/steelyard/lib/steelyard.lua"] = GLUE
files["openresty/steelyard/lib/steelyard/inference.lua"] = GLUE
files["openresty/steelyard/lib/steelyard/stream.lua"] = GLUE
-- A library of its own, and its weights are bounded.
files["openresty/lua-resty-vnswrr/lib/resty/vnswrr/rows.lua"] = { read_globals = { "tonumber" } }
files["openresty/lua-resty-vnswrr/spec"] = SPEC
files["openresty/steelyard/spec"] = SPEC
files["openresty/tests"] = { std = "ngx_lua", globals = { "math" }, read_globals = { "debug" } }
files["openresty/benchmarks"] = { read_globals = { "io", "os" } }
