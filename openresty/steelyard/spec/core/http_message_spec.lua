-- Over sockets: openresty/tests/test_health.py, test_active_checks.py.

local http_message = require "steelyard.core.http_message"

local TARGET = { host = "10.0.0.1", port = 80, path = "/healthz" }


describe("a request", function()
    it("has a Host and ends its connection", function()
        assert.equal("GET /healthz HTTP/1.1\r\nHost: 10.0.0.1:80\r\nConnection: close\r\n\r\n",
                     http_message.request(TARGET, "1.1"))
    end)

    it("has the Host that it is given", function()
        local target = { host = "10.0.0.1", port = 80, path = "/", headers = { Host = "example.org" } }
        assert.matches("\r\nHost: example.org\r\n", http_message.request(target, "1.0"), 1, true)
    end)

    it("is an error with a path or header that would end its line", function()
        assert.has_error(function() http_message.request({ host = "a", port = 1, path = "/ HTTP/1.1" }, "1.1") end)
        assert.has_error(function()
            http_message.request({ host = "a", port = 1, path = "/", headers = { ["X-Y"] = "z\r\n" } }, "1.1")
        end)
    end)
end)


describe("the status of an answer", function()
    for text, status in pairs({
        ["HTTP/1.1 200 OK\r\n"] = 200,
        ["HTTP/1.0 503\r\n"] = 503,
        ["HTTP/1.1 204 \n"] = 204,
        ["HTTP/1.1 426 Upgrade Required\r\n"] = 426,
        ["HTTP/1.1 101 Switching Protocols\r\n"] = 101,
        ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n"] = 200,
    }) do
        it("is known with its line: " .. string.match(text, "[^\r\n]+"), function()
            assert.equal(status, http_message.status(text))
            assert.equal(status, http_message.status(text .. "\r\n\r\nand so on"))
        end)

        it("is not known before: " .. string.match(text, "[^\r\n]+"), function()
            for length = 0, #text - 1 do
                assert.same({}, { http_message.status(string.sub(text, 1, length)) })
            end
        end)
    end

    for _, text in ipairs({ "SSH-2.0", "\21\3\3\0\2", "HTTP/2.0 200 OK\r\n", "HTTP/1.1 600 What\r\n",
                            "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 20 OK\r\n", "HTTP/1.1\r\n",
                            "HTTP/1.1 100 Continue\r\n\r\nnot HTTP" }) do
        it("is none in " .. string.format("%q", text), function()
            assert.same({ nil, "an answer that is not HTTP" }, { http_message.status(text) })
        end)
    end
end)
