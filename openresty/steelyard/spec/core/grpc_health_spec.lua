-- Against a real gRPC server: openresty/tests/test_active_checks.py.

local grpc_health = require "steelyard.core.grpc_health"

local SETTINGS = "\0\0\6\4\0\0\0\0\0\0\3\0\0\0\100" -- MAX_CONCURRENT_STREAMS = 100
local WINDOW_UPDATE = "\0\0\4\8\0\0\0\0\0\0\1\0\0"
local HEADERS = "\0\0\1\1\4\0\0\0\1\136"

local function data(payload, flags)
    return "\0\0" .. string.char(#payload) .. "\0" .. string.char(flags or 0) .. "\0\0\0\1" .. payload
end

local SERVING = data("\0\0\0\0\2\8\1")


describe("the request", function()
    local request = grpc_health.request("", "10.0.0.1:80")

    it("is preface, SETTINGS, HEADERS and an empty message that ends the stream", function()
        assert.equal("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", string.sub(request, 1, 33))
        assert.equal("\1\4\0\0\0\1", string.sub(request, 37, 42))
        assert.equal(data("\0\0\0\0\0", 1), string.sub(request, -14))
    end)

    it("names the service in field 1", function()
        assert.equal(data("\0\0\0\0\6\10\4shop", 1), string.sub(grpc_health.request("shop", "a"), -20))
    end)

    it("has headers as literals, with a length of two bytes from 127 on", function()
        assert.is_truthy(string.find(request, "\0\10:authority\11" .. "10.0.0.1:80", 1, true))
        for length, prefix in pairs({ [126] = "\126", [127] = "\127\0", [253] = "\127\126" }) do
            local host = string.rep("x", length)
            local long = grpc_health.request("", host)
            assert.is_truthy(string.find(long, "\0\10:authority" .. prefix .. host .. "\0", 1, true))
            -- The frame's length counts all of it: HEADERS begins at 34, the message's frame has 14 bytes.
            local high, low = string.byte(long, 35, 36)
            assert.equal(#long, 33 + 9 + high * 256 + low + 14)
        end
    end)
end)


describe("the answer", function()
    it("is the status in the message, after any other frames", function()
        for number, status in pairs({ [0] = "UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN",
                                      "an unknown status" }) do
            local message = data("\0\0\0\0\2\8" .. string.char(number))
            assert.equal(status, grpc_health.judge(SETTINGS .. WINDOW_UPDATE .. HEADERS .. message))
        end
    end)

    it("is UNKNOWN if the message is empty", function()
        assert.equal("UNKNOWN", grpc_health.judge(SETTINGS .. HEADERS .. data("\0\0\0\0\0")))
    end)

    it("may come in several frames, and with padding", function()
        local pieces = data("\0\0\0") .. WINDOW_UPDATE .. data("\3\0\2\8\1xyz", 8)
        assert.equal("SERVING", grpc_health.judge(SETTINGS .. HEADERS .. pieces))
    end)

    it("is not known before its last byte", function()
        local text = SETTINGS .. WINDOW_UPDATE .. HEADERS .. SERVING
        for length = 0, #text - 1 do
            assert.same({}, { grpc_health.judge(string.sub(text, 1, length)) })
        end
    end)

    it("is none from a server of HTTP/1 or of something else", function()
        for _, text in ipairs({ "HTTP/1.1 400 Bad Request\r\n", "SSH-2.0-OpenSSH", HEADERS,
                                SETTINGS .. "\1\0\0\0\0\0\0\0\1" }) do
            local status, why = grpc_health.judge(text)
            assert.is_nil(status)
            assert.equal("an answer that is not HTTP/2", why)
        end
    end)

    it("is none if the body is no message, or a compressed one", function()
        for _, payload in ipairs({ "<html>", "\1\0\0\0\2\8\1" }) do
            local _, why = grpc_health.judge(SETTINGS .. HEADERS .. data(payload))
            assert.matches("no message of gRPC", why)
        end
    end)

    it("is none if the call ends without a message, by trailers or by data", function()
        for _, last in ipairs({ "\0\0\1\1\5\0\0\0\1\136", HEADERS .. data("", 1) }) do
            local _, why = grpc_health.judge(SETTINGS .. last)
            assert.matches("a call that failed", why)
        end
    end)

    it("is none if the server refuses the call, or ends the connection for an error", function()
        local _, why = grpc_health.judge(SETTINGS .. "\0\0\4\3\0\0\0\0\1\0\0\0\7")
        assert.matches("RST_STREAM", why)
        _, why = grpc_health.judge(SETTINGS .. "\0\0\8\7\0\0\0\0\0\0\0\0\0\0\0\0\1")
        assert.matches("GOAWAY", why)
    end)

    it("is a status, a reason or nothing with any byte changed", function()
        local text = SETTINGS .. WINDOW_UPDATE .. HEADERS .. data("\3\0\0\0\0\2\8\1xyz", 8)
        for at = 1, #text do
            for byte = 0, 255 do
                local status, why = grpc_health.judge(string.sub(text, 1, at - 1) .. string.char(byte)
                                                      .. string.sub(text, at + 1))
                assert.is_true(status == nil or why == nil and type(status) == "string")
            end
        end
    end)

    it("still comes if the server ends the connection after it", function()
        local going = "\0\0\8\7\0\0\0\0\0\127\255\255\255\0\0\0\0"
        assert.equal("SERVING", grpc_health.judge(SETTINGS .. going .. HEADERS .. SERVING))
    end)
end)
