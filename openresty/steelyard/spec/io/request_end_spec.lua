--- Outside nginx: ngx_http_cleanup_add() is missing here, as on an nginx that hides its symbols.

local ffi = require "ffi"


describe("the end of a request, without nginx's function", function()
    local request_end

    setup(function()
        package.loaded["resty.core.base"] = { get_request = function() return nil end }
        package.loaded["steelyard.io.request_end"] = nil
        request_end = require "steelyard.io.request_end"
    end)

    teardown(function()
        package.loaded["resty.core.base"], package.loaded["steelyard.io.request_end"] = nil, nil
    end)

    it("is not available, and the reason names the function", function()
        local available, why_not = request_end.available()
        assert.is_nil(available)
        assert.truthy(why_not:find("ngx_http_cleanup_add", 1, true), why_not)
    end)

    it("is not watched, and that is no error", function()
        request_end.available()
        local word = ffi.new("long[1]", 0)
        request_end.watch(word)
        assert.equal(0, tonumber(word[0]))
        assert.is_false(request_end.is_over_at_server({ ended = word }, 1)) -- and reads no memory of nginx
    end)
end)
