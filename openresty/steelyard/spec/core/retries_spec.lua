local retries = require "steelyard.core.retries"

local STALE = { status = 502, connected = true, answered = false }


describe("a request's tries", function()
    it("are refused with the reason", function()
        assert.equal("retries = 2 allows no more tries", retries.why_no_more({}, 2, 2, 3))
        assert.equal("every server was tried", retries.why_no_more({}, 1, 2, 0))
        assert.equal("nginx.conf's limit of tries allows no more", retries.why_no_more({}, 1, 2, 3))
        assert.equal("the retry budget is spent", retries.why_no_more({ over_budget = true }, 0, 2, 3))
    end)

    it("use the spare one after a pooled connection that was closed, and after nothing else", function()
        assert.is_nil(retries.refusal(STALE))
        assert.equal(504, retries.refusal({ status = 504, connected = true, answered = false }))
        assert.equal(502, retries.refusal({ status = 502, connected = false, answered = false }))
        assert.equal(502, retries.refusal({ status = 502, connected = true, answered = true }))
        assert.equal(503, retries.refusal({ status = 503, connected = true, answered = true }))
        assert.equal(502, retries.refusal({ connected = false, answered = false }))
    end)
end)


describe("a request that failed", function()
    local SENT, UNSENT = { sent = true }, { sent = false }

    it("is sent again if nothing of it went out, with any method", function()
        for _, method in ipairs({ "GET", "POST", "NOTIFY", "get" }) do
            assert.is_true(retries.may_be_sent_again(method, UNSENT))
        end
    end)

    it("is sent again if its method is idempotent", function()
        for _, method in ipairs({ "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND", "REPORT", "QUERY" }) do
            assert.is_true(retries.may_be_sent_again(method, SENT))
        end
    end)

    it("is not if its method is unknown", function()
        for _, method in ipairs({ "NOTIFY", "PURGE", "get", "" }) do
            assert.is_false(retries.may_be_sent_again(method, SENT))
        end
        assert.is_true(retries.may_be_sent_again("PURGE", SENT, { PURGE = true }))
        assert.is_false(retries.may_be_sent_again("NOTIFY", SENT, { PURGE = true }))
    end)

    it("is nginx's to decide if it is a POST, LOCK or PATCH", function()
        for _, method in ipairs({ "POST", "LOCK", "PATCH" }) do
            assert.is_true(retries.may_be_sent_again(method, SENT))
        end
    end)
end)
