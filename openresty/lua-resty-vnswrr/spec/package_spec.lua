--- The packages for luarocks and opm have the library's files.

local vnswrr = require "resty.vnswrr"

local FOLDER = debug.getinfo(1, "S").source:match("^@(.*)spec/[^/]*$")


local function rockspec()
    local described = {}
    local load_rockspec = assert(loadfile(FOLDER .. "lua-resty-vnswrr-" .. vnswrr._VERSION .. "-1.rockspec"))
    setfenv(load_rockspec, described)()
    return described
end


--- The text of a file of the library; nil when there is none.
local function text_of(path)
    local file = io.open(FOLDER .. path)
    local text = file and file:read("*a")
    if file then
        file:close()
    end
    return text
end


describe("the package", function()
    it("has the library's version", function()
        assert.equal(vnswrr._VERSION .. "-1", rockspec().version)
    end)

    it("lists the modules that a ring requires, and no other", function()
        local listed = rockspec().build.modules
        local required, waiting = {}, { "resty.vnswrr" }
        while #waiting > 0 do
            local name = table.remove(waiting)
            if not required[name] then
                required[name] = "lib/" .. name:gsub("%.", "/") .. ".lua"
                for other in assert(text_of(required[name])):gmatch('require "(resty%.[%w.]+)"') do
                    waiting[#waiting + 1] = other
                end
            end
        end
        assert.same(required, listed)
    end)
end)
