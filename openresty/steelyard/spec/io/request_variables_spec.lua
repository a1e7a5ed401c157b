--- Outside nginx: ngx_http_get_variable() is missing here, as on an nginx that hides its symbols.

describe("variables of a request, without nginx's function", function()
    local values, variables, first, second

    setup(function()
        _G.ngx = { var = setmetatable({}, { __index = function(_, name) return values[name] end }) }
        package.loaded["resty.core.base"] = { get_request = function() return nil end }
        package.loaded["steelyard.io.request_variables"] = nil
        variables = require "steelyard.io.request_variables"
        first, second = variables.named("first"), variables.named("second")
    end)

    teardown(function()
        _G.ngx = nil
        package.loaded["resty.core.base"], package.loaded["steelyard.io.request_variables"] = nil, nil
    end)

    it("come from ngx.var", function()
        values = { first = "204", second = "0.017" }
        assert.equal(204, variables.status(first))
        assert.equal(17, variables.milliseconds(second))
        values = { first = "502, 204" }
        assert.is_nil(variables.status(first))
        assert.is_nil(variables.milliseconds(second))
    end)

    it("are compared as text", function()
        for _, case in ipairs({
            { true, nil, nil }, { true, nil, "10" }, { true, "10", "10" },
            { false, "10", nil }, { false, "10", "9" }, { false, "10", "11" }, { false, "10", "10, 10" },
        }) do
            values = { first = case[2], second = case[3] }
            assert.equal(case[1], variables.is_absent_or_same(first, second))
        end
    end)
end)
