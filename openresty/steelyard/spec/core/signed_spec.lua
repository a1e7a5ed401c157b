local json = require "steelyard.core.json"
local signature = require "steelyard.io.signature"
local signed = require "steelyard.core.signed"

local KEY = "a key of the spec, 32 bytes or so"
local DIGITS = ("0123456789abcdef"):rep(4)


local function reason_of(value, key)
    local text, refused = signature.open(key, value)
    assert.is_nil(text)
    assert.is_string(refused.detail)
    return refused.reason
end


describe("a signature", function()
    it("is HMAC-SHA256 in lower-case hex digits (RFC 4231, cases 2 and 6)", function()
        assert.equal("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843.what do ya want for nothing?",
                     signature.sign("Jefe", "what do ya want for nothing?"))
        assert.equal("60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
                     signature.sign(("\170"):rep(131), "Test Using Larger Than Block-Size Key - Hash Key First")
                         :sub(1, 64))
    end)

    it("is the same whether a text is signed in one piece or in many", function()
        local breaths = 0
        local text = ("0123456789"):rep(100000)
        local value = signature.sign(KEY, text, function() breaths = breaths + 1 end)
        assert.equal(8, breaths)
        assert.equal(text, signature.open(KEY, value))
        assert.equal("unsigned", reason_of(text, KEY))
        assert.equal("signature", reason_of(value:sub(1, -2) .. "8", KEY))
    end)

    it("is not written without a key, and then a value is its text", function()
        assert.equal("{}", signature.sign(nil, "{}"))
        assert.equal("{}", signature.open(nil, "{}"))
        assert.equal("signed", reason_of(signature.sign(KEY, "{}"), nil))
    end)

    it("of any other key, or with any bit changed, is refused", function()
        local value = signature.sign(KEY, "{}")
        assert.equal("signature", reason_of(value, KEY .. "!"))
        for at = 1, #value do
            for bit = 0, 7 do
                local byte = value:byte(at)
                local changed = byte + (math.floor(byte / 2 ^ bit) % 2 == 0 and 2 ^ bit or -2 ^ bit)
                local reason = reason_of(value:sub(1, at - 1) .. string.char(changed) .. value:sub(at + 1), KEY)
                assert.is_true(reason == "signature" or reason == "unsigned")
            end
        end
    end)
end)


describe("without OpenSSL, with the digest passed in,", function()
    local function digest(text)
        return #text == 2 and DIGITS or ("f"):rep(64)
    end

    it("a value is opened only when every digit is right", function()
        assert.equal("{}", signed.open(DIGITS .. ".{}", digest))
        assert.equal("signature", select(2, signed.open(DIGITS .. ".{} ", digest)).reason)
        assert.equal("signature", select(2, signed.open(DIGITS:sub(1, 63) .. "0.{}", digest)).reason)
    end)

    it("is no signature if longer, shorter or in upper case", function()
        for _, digits in ipairs({ "", DIGITS:sub(2), DIGITS .. "0", DIGITS:upper() }) do
            assert.equal("unsigned", select(2, signed.open(digits .. ".{}", digest)).reason)
            assert.equal(digits .. ".{}", signed.open(digits .. ".{}", nil))
        end
    end)
end)


describe("a value in docs/contract/signed.json", function()
    local file = assert(io.open("docs/contract/signed.json") or io.open("../docs/contract/signed.json"))
    local examples = assert(json.decode(file:read("*a")))
    file:close()

    for _, example in ipairs(examples.accepted) do
        it("is written and read alike: " .. example.name, function()
            assert.equal(example.value, signature.sign(examples.key, example.text))
            assert.equal(example.text, signature.open(examples.key, example.value))
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused (" .. example.reason .. "): " .. example.name, function()
            assert.equal(example.reason, reason_of(example.value, examples.key))
        end)
    end

    for _, example in ipairs(examples.refused_without_key or {}) do
        it("is refused without a key (" .. example.reason .. "): " .. example.name, function()
            assert.equal(example.reason, reason_of(example.value, nil))
        end)
    end

    for _, example in ipairs(examples.accepted_without_key or {}) do
        it("is accepted without a key: " .. example.name, function()
            assert.equal(example.text, signature.open(nil, example.value))
        end)
    end
end)


describe("a key in docs/contract/derived-keys.json", function()
    local file = assert(io.open("docs/contract/derived-keys.json") or io.open("../docs/contract/derived-keys.json"))
    local examples = assert(json.decode(file:read("*a")))
    file:close()

    local function bytes(hex)
        return (hex:gsub("..", function(pair) return string.char(tonumber(pair, 16)) end))
    end

    local function names_that_open(value)
        local names = {}
        for name, key in pairs(examples.keys) do
            names[#names + 1] = signature.open(key, value) and name or nil
        end
        return names
    end

    for _, vector in ipairs(examples.hkdf) do
        it("is derived by HKDF-SHA256: " .. vector.name, function()
            assert.equal(vector.okm, signature.hkdf(bytes(vector.secret), bytes(vector.salt), bytes(vector.info)))
        end)
    end

    for name, key in pairs(examples.keys) do
        it("is derived alike: " .. name, function()
            assert.equal(key, signature.derive(examples.shared, name))
        end)
    end

    for _, example in ipairs(examples.values) do
        it("signs alike, and no other opens it: " .. example.signed_by, function()
            local key = examples.keys[example.signed_by] or examples.shared
            assert.equal(example.value, signature.sign(key, example.text))
            assert.same({ examples.keys[example.signed_by] and example.signed_by }, names_that_open(example.value))
        end)
    end

    it("is read of a load balancer's, which opens tables and signs its own reports", function()
        local keys = signature.keys(examples.load_balancer.key)
        assert.same({ tables = { examples.keys.tables }, saved = examples.keys.tables,
                      reports = examples.keys["lb edge-1"], failures = keys.failures }, keys)
    end)

    it("is one for the failure reports of all load balancers, and opens no table", function()
        local own, shared = signature.keys(examples.load_balancer.key), signature.keys(examples.shared)
        assert.equal(64, #own.failures)
        assert.equal(own.failures, shared.failures)
        assert.equal("signature", select(2, signature.open_with_any(shared.tables,
                                                                    signature.sign(own.failures, "{}"))).reason)
    end)

    it("opens tables beside the shared one, and the one that fits is tried first", function()
        local keys = signature.keys(examples.shared)
        assert.equal(examples.shared, keys.reports)
        for _, example in ipairs(examples.values) do
            local is_table = example.signed_by == "tables" or example.signed_by == "shared"
            local text, refused = signature.open_with_any(keys.tables, example.value)
            assert.equal(is_table and example.text or nil, text)
            assert.equal(not is_table and "signature" or nil, refused and refused.reason)
        end
        signature.open_with_any(keys.tables, examples.values[4].value)
        assert.equal(examples.keys.tables, keys.tables[1])
        assert.equal("unsigned", select(2, signature.open_with_any(keys.tables, "{}")).reason)
    end)

    it("is not needed if none is set, and then a signed value is refused", function()
        local keys = signature.keys(nil)
        assert.equal("{}", signature.open_with_any(keys.tables, "{}"))
        assert.equal("signed", select(2, signature.open_with_any(keys.tables, examples.values[4].value)).reason)
        assert.equal("{}", signature.sign(keys.reports, "{}"))
    end)
end)
