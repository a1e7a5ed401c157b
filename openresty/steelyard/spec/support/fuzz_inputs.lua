--- Inputs that nobody meant: examples with a few edits, from a seeded generator.

local json = require "steelyard.core.json"

-- Texts that may stand where JSON has a value.
local VALUES = {
    "0", "-0", "1", "-1", "1.0", "2.5", "1e2", "1.", "01", "0x10", "NaN", "nan", "Infinity", "-inf", "1e400",
    "1e308",
    "64", "65535", "65536", "1000000", "1000001", "9007199254740992", "9007199254740993", "18446744073709551616",
    ("9"):rep(400), '""', '"a"', '"a b"', '"a\\u0000b"', '"\\ud800"', '"\195\169"', '"\255"', '"\t"',
    '"' .. ("a"):rep(64) .. '"', '"' .. ("a"):rep(65) .. '"', '"' .. ("a"):rep(5000) .. '"', '"server-1"', '"up"',
    '"drain"', '"down"', '"backup"', '"UP"', '"10.0.0.11:80"', '"10.0.0.011:80"', '"1.2.3.4:0"', '"1.2.3.4:65536"',
    '"[::1]:80"', '"[::ffff:1.2.3.4]:80"', '"[1::2::3]:80"', '"[fe80::1%eth0]:80"', '"[]:80"', '"a.example:80"',
    '"/healthz"', '"/\\r\\nX: y"', '"address"', '"header:x"', '"cookie:"', '"vnswrr"', "true", "false", "null", "[]",
    "{}", "[[]]", "[null]", "[200]", '{"a":1,"a":2}', ("["):rep(60) .. ("]"):rep(60),
    ("["):rep(1200) .. ("]"):rep(1200),
    ("["):rep(100000), ('{"a":'):rep(500) .. "1" .. ("}"):rep(500),
}

-- Bytes to put anywhere.
local PIECES = {
    "\0", "\255", "\195", "\237\160\128", "\239\187\191", "\t", "\n", "\r\n", "\31", "\127", " ", '"', "\\", '\\"',
    "{", "}", "[",
    "]", "},{", ",", ":", "-", ".", "%", "/", "::", ("0"):rep(30), ("a"):rep(300), '"peers":[', '"peers":{}', "}]}",
    '"v":2,', '"x":1,',
}

local MAX_BYTES = 65536

local _M = {}


--- A generator of numbers 0 <= x < 1: Park and Miller's, the same on every platform.
function _M.random(seed)
    local state = seed % 2147483646 + 1
    return function()
        state = state * 48271 % 2147483647
        return state / 2147483647
    end
end


local function choice(random, list)
    return list[math.floor(random() * #list) + 1]
end


--- The places in a text where a value begins, roughly: after a colon, a comma or a bracket.
local function value_replaced(random, text)
    local from = string.find(text, "[:,%[]", math.floor(random() * #text) + 1)
    local to = from and string.find(text, "[,}%]]", from + 1)
    if not to then
        return text
    end
    return string.sub(text, 1, from) .. choice(random, VALUES) .. string.sub(text, to)
end


local EDITS = {
    value_replaced, value_replaced, value_replaced,
    function(random, text) -- a piece put somewhere
        local at = math.floor(random() * (#text + 1))
        return string.sub(text, 1, at) .. choice(random, PIECES) .. string.sub(text, at + 1)
    end,
    function(random, text) -- some bytes cut out
        local at = math.floor(random() * (#text + 1))
        return string.sub(text, 1, at) .. string.sub(text, at + 1 + choice(random, { 1, 2, 8, 64 }))
    end,
    function(random, text) -- one byte another
        local at = math.floor(random() * #text)
        return string.sub(text, 1, at) .. string.char(math.floor(random() * 256)) .. string.sub(text, at + 2)
    end,
    function(random, text) -- a stretch twice
        local at, length = math.floor(random() * (#text + 1)), choice(random, { 1, 10, 100 })
        return string.sub(text, 1, at + length) .. string.sub(text, at + 1)
    end,
    function(random, text) -- the end missing
        return string.sub(text, 1, math.floor(random() * (#text + 1)))
    end,
}


--- One of the seeds after a few edits; now and then bytes of no seed at all.
function _M.an_input(random, seeds)
    if random() < 0.03 then
        local bytes = {}
        for i = 1, math.floor(random() * 100) do
            bytes[i] = string.char(math.floor(random() * 256))
        end
        return table.concat(bytes)
    end
    local text = choice(random, seeds)
    for _ = 1, choice(random, { 1, 1, 1, 2, 3 }) do
        text = choice(random, EDITS)(random, string.sub(text, 1, MAX_BYTES))
    end
    return text
end


--- The examples of a file in docs/contract as texts, and the document itself.
function _M.contract(name)
    local file = assert(io.open("docs/contract/" .. name) or io.open("../docs/contract/" .. name))
    local document = assert(json.decode(file:read("*a")))
    file:close()
    local texts = {}
    for _, list in ipairs({ document.accepted, document.refused }) do
        for _, example in ipairs(list) do
            local text = example.value or example.text or example.head
                         or table.concat({ example.manifest, unpack(example.chunks) }, "\n")
            -- As the controller writes it: compact, the peers last.
            if type(text) == "table" and not text.peers then
                text = json.encode(text)
            elseif type(text) == "table" then
                local peers = text.peers
                text.peers = nil
                text = string.sub(json.encode(text), 1, -2) .. ',"peers":' .. json.encode(json.array(peers)) .. "}"
                text = string.gsub(text, '"\\u0001%[%]"', "[]")
            end
            if #text < 4096 then
                texts[#texts + 1] = text
            end
        end
    end
    return texts, document
end


return _M
