-- For those of a weight table see contract_spec, check_contract_spec and weight_table_spec.

local check_settings = require "steelyard.core.check_settings"
local json = require "steelyard.core.json"

local function settings(given)
    return check_settings.of_options("check", given)
end


describe("a check in nginx.conf", function()
    it("asks without TLS by default", function()
        local made = settings({ path = "/healthz" })
        assert.is_false(made.tls)
        assert.is_nil(made.server_name)
        assert.equal("GET /healthz", made.words)
    end)

    it("over TLS verifies the certificate, for the host's name without its port", function()
        local made = settings({ path = "/", host = "shop.example.org:8443", tls = true })
        assert.is_true(made.tls_verify)
        assert.equal("shop.example.org", made.server_name)
        assert.equal("GET / over TLS as shop.example.org", made.words)
    end)

    it("over TLS may have a name of its own", function()
        local made = settings({ path = "/", host = "10.0.0.1", tls = true, tls_server_name = "a.example.org" })
        assert.equal("a.example.org", made.server_name)
    end)

    it("over TLS needs no name if it trusts any certificate, and then gives none that is an address", function()
        local made = settings({ path = "/", host = "10.0.0.1:443", tls = true, tls_verify = false })
        assert.is_nil(made.server_name)
        assert.equal("GET / over TLS, unverified", made.words)
    end)

    it("of gRPC wants SERVING", function()
        local made = settings({ grpc_service = "shop.v1.Orders" })
        assert.same({ SERVING = true }, made.statuses)
        assert.equal("grpc.health.v1.Health/Check of shop.v1.Orders", made.words)
    end)

    it("asks something else if TLS, its name, its verification or the service differ", function()
        local seen = {}
        for _, given in ipairs({
            { path = "/" }, { path = "/", host = "a" }, { path = "/", host = "a", tls = true },
            { path = "/", host = "a", tls = true, tls_server_name = "b" },
            { path = "/", host = "a", tls = true, tls_verify = false }, { grpc_service = "" }, { grpc_service = "a" },
        }) do
            local about = settings(given).about
            assert.is_nil(seen[about])
            seen[about] = true
        end
    end)

    it("may only connect, over TLS too", function()
        local made = settings({ tcp = true })
        assert.equal("a connection", made.words)
        assert.same({ CONNECTED = true }, made.statuses)
        local over_tls = settings({ tcp = true, tls = true, tls_verify = false })
        assert.equal("a connection over TLS, unverified", over_tls.words)
        assert.are_not.equal(made.about, settings({ path = "/" }).about)
    end)
end)


describe("a check with a mistake", function()
    for _, case in ipairs({
        { "path", {} },
        { "path", { path = json.null } }, -- ngx.null, too
        { "path", { path = "/", grpc_service = "" } },
        { "statuses", { grpc_service = "", statuses = { 200 } } },
        { "tcp", { tcp = false } },
        { "tcp", { tcp = true, path = "/" } },
        { "tcp", { tcp = true, grpc_service = "" } },
        { "tcp", { tcp = true, statuses = { 200 } } },
        { "tls_server_name", { tcp = true, tls = true } },
        { "grpc_service", { grpc_service = true } },
        { "grpc_service", { grpc_service = "a b" } },
        { "tls", { path = "/", tls = "yes" } },
        { "tls", { grpc_service = "", tls = true } },
        { "tls_server_name", { path = "/", tls = true } },
        { "tls_server_name", { path = "/", tls = true, host = "10.0.0.1:443" } },
        { "tls_server_name", { path = "/", tls = true, host = "[fd00::1]:443" } },
        { "tls_server_name", { path = "/", tls = true, tls_server_name = "example.org:443" } },
        { "tls_server_name", { path = "/", tls = true, tls_server_name = ".example.org" } },
        { "tls_server_name", { path = "/", tls_server_name = "example.org" } },
        { "tls_verify", { path = "/", host = "example.org", tls = true, tls_verify = 0 } },
        { "tls_verify", { path = "/", tls_verify = false } },
    }) do
        it("names `" .. case[1] .. "` and the remedy", function()
            local ok, err = pcall(settings, case[2])
            assert.is_false(ok)
            assert.matches("option `check." .. case[1] .. "` .+; .+", err)
        end)
    end
end)
