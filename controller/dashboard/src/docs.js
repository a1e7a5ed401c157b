/* The API's pages, by Swagger UI, from this controller alone. */
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#docs", deepLinking: true, validatorUrl: null, defaultModelsExpandDepth: 0 });
