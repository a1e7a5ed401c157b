local number = require "steelyard.core.number"


describe("a decimal number of input", function()
    for text, value in pairs({
        ["5"] = 5, ["-5"] = -5, ["+5"] = 5, ["0.5"] = 0.5, [".5"] = 0.5, ["1e3"] = 1000, ["1E-3"] = 0.001, ["007"] = 7,
    }) do
        it("is " .. text, function()
            assert.equal(value, number.decimal(text, -1e9, 1e9))
        end)
    end

    for _, text in ipairs({
        "nan", "-nan", "NaN", "inf", "-inf", "infinity", "1e999", "-1e999", ("9"):rep(400),
        "0x10", "0x1p4", "0b101", " 5",
        "5 ", "\t5\n", "5\0", "", ".", "-", "e5", "1_000", "5, 6", "1ull", "5i", "\217\161", "--5", "1e", "five",
    }) do
        it("is not " .. string.format("%q", text):sub(1, 40), function()
            assert.is_nil(number.decimal(text, -1e300, 1e300))
            assert.is_nil(number.whole(text, 0, 2 ^ 53))
        end)
    end

    it("may be a number already, if it is finite", function()
        assert.equal(5, number.decimal(5, 0, 10))
        for _, value in ipairs({ 0 / 0, 1 / 0, -1 / 0 }) do
            assert.is_nil(number.decimal(value, -1e300, 1e300))
        end
    end)

    it("is within the bounds, which belong to it", function()
        assert.same({ 0, 10 }, { number.decimal("0", 0, 10), number.decimal("10", 0, 10) })
        assert.is_nil(number.decimal("-0.001", 0, 10))
        assert.is_nil(number.decimal("10.001", 0, 10))
    end)

    it("is no value of another type", function()
        for _, value in ipairs({ true, {}, print }) do
            assert.is_nil(number.decimal(value, 0, 10))
            assert.is_nil(number.whole(value, 0, 10))
        end
        assert.is_nil(number.decimal(nil, 0, 10))
        assert.is_nil(number.whole(nil, 0, 10))
    end)
end)


describe("a whole number of input", function()
    it("has digits alone, and is within the bounds", function()
        assert.same({ 0, 80 }, { number.whole("0", 0, 10), number.whole("80", 1, 65535) })
        for _, text in ipairs({ "-1", "+1", "1.0", "1e1", "11" }) do
            assert.is_nil(number.whole(text, 0, 10))
        end
    end)
end)
