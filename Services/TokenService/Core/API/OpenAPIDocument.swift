/// The API's description as YAML, what `token-service openapi` prints. In the program, so that it needs no file beside it.
/// A test compares its paths with ``APIRoute/all``.
package enum OpenAPIDocument {
    package static let text = #"""
        openapi: 3.1.0
        info:
          title: token-service
          version: 1.0.0
          description: Registers devices and accepts push notifications. Every error is application/problem+json.
        security:
          - key: []
        paths:
          /v1/admin/apps:
            post:
              operationId: createApp
              summary: "Make an app. The same again is 200, another one of the same slug 409."
              description: "Scope: admin."
              requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/App' } } } }
              responses:
                "201": { description: Made }
                "200": { description: Done }
                "409": { description: Conflict; nothing was changed }
                default: { $ref: '#/components/responses/Problem' }
            get:
              operationId: listApps
              summary: "All apps."
              description: "Scope: admin."
              responses:
                "200": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /v1/admin/keys:
            post:
              operationId: createKey
              summary: "Make an API key. It is shown in this answer only."
              description: "Scope: admin."
              requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/Key' } } } }
              responses:
                "201": { description: Made }
                default: { $ref: '#/components/responses/Problem' }
            get:
              operationId: listKeys
              summary: "All API keys, without their secrets."
              description: "Scope: admin."
              responses:
                "200": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /v1/admin/keys/{id}:
            parameters:
              - { name: id, in: path, required: true, schema: { type: string } }
            delete:
              operationId: revokeKey
              summary: "Revoke a key; other instances notice within five seconds."
              description: "Scope: admin."
              responses:
                "204": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /v1/apps/{app}/installations/{id}:
            parameters:
              - { name: app, in: path, required: true, schema: { type: string } }
              - { name: id, in: path, required: true, schema: { type: string } }
            put:
              operationId: register
              summary: "Register an installation with its whole state; idempotent."
              description: "Scope: devices."
              requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/Registration' } } } }
              responses:
                "200": { description: Done }
                "201": { description: Made }
                "409": { description: Conflict; nothing was changed }
                default: { $ref: '#/components/responses/Problem' }
            get:
              operationId: readInstallation
              summary: "One installation."
              description: "Scope: read or devices."
              responses:
                "200": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
            delete:
              operationId: deregister
              summary: "Deregister; always succeeds."
              description: "Scope: devices."
              responses:
                "204": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /v1/apps/{app}/installations/{id}/logout:
            parameters:
              - { name: app, in: path, required: true, schema: { type: string } }
              - { name: id, in: path, required: true, schema: { type: string } }
            post:
              operationId: logOut
              summary: "Sign the installation out; always succeeds unless another user than the expected one is signed in."
              description: "Scope: devices."
              requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/Logout' } } } }
              responses:
                "200": { description: Done }
                "409": { description: Conflict; nothing was changed }
                default: { $ref: '#/components/responses/Problem' }
          /v1/apps/{app}/tokens/logout:
            parameters:
              - { name: app, in: path, required: true, schema: { type: string } }
            post:
              operationId: logOutToken
              summary: "Sign out whoever holds a token."
              description: "Scope: devices."
              requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/TokenLogout' } } } }
              responses:
                "200": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /v1/apps/{app}/users/{user}/installations:
            parameters:
              - { name: app, in: path, required: true, schema: { type: string } }
              - { name: user, in: path, required: true, schema: { type: string } }
            get:
              operationId: listInstallations
              summary: "A user's installations, by id, page by page."
              description: "Scope: read or devices."
              parameters:
                - { name: limit, in: query, schema: { type: integer, minimum: 1, maximum: 1000, default: 100 } }
                - { name: cursor, in: query, schema: { type: string } }
              responses:
                "200": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /v1/apps/{app}/users/{user}/logout:
            parameters:
              - { name: app, in: path, required: true, schema: { type: string } }
              - { name: user, in: path, required: true, schema: { type: string } }
            post:
              operationId: logOutUser
              summary: "Sign a user out everywhere, or everywhere but one installation."
              description: "Scope: devices."
              requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/UserLogout' } } } }
              responses:
                "200": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /v1/apps/{app}/notifications:
            parameters:
              - { name: app, in: path, required: true, schema: { type: string } }
            post:
              operationId: send
              summary: "Send a notification. 202 means that it is durable and will be sent."
              description: "Scope: send."
              parameters:
                - { name: Idempotency-Key, in: header, schema: { type: string, maxLength: 255 } }
                - { name: traceparent, in: header, schema: { type: string } }
              requestBody: { content: { application/json: { schema: { $ref: '#/components/schemas/Notification' } } } }
              responses:
                "202": { description: Accepted }
                "422": { description: Idempotency-Key was used with another body }
                "503": { description: Temporarily unavailable; see Retry-After }
                default: { $ref: '#/components/responses/Problem' }
          /v1/apps/{app}/notifications/{id}:
            parameters:
              - { name: app, in: path, required: true, schema: { type: string } }
              - { name: id, in: path, required: true, schema: { type: string } }
            get:
              operationId: readNotification
              summary: "What became of a notification, delivery by delivery."
              description: "Scope: read."
              responses:
                "200": { description: Done }
                default: { $ref: '#/components/responses/Problem' }
          /healthz: { get: { operationId: health, security: [], responses: { "200": { description: The process runs } } } }
          /readyz: { get: { operationId: readiness, security: [], responses: { "200": { description: Ready }, "503": { description: Not ready } } } }
          /metrics: { get: { operationId: metrics, security: [], responses: { "200": { description: Prometheus text format 0.0.4 } } } }
        components:
          securitySchemes:
            key: { type: http, scheme: bearer, description: "psh_, 16 hex digits, _, 48 hex digits" }
          responses:
            Problem: { description: Refused, content: { application/problem+json: { schema: { $ref: '#/components/schemas/Problem' } } } }
          schemas:
            App:
              type: object
              required: [slug, bundle_id, device_policy, environments]
              properties:
                slug: { type: string, pattern: "^[a-z][a-z0-9-]{0,63}$" }
                bundle_id: { type: string, maxLength: 155 }
                device_policy: { enum: [multi, single] }
                environments: { type: array, items: { enum: [production, sandbox] }, minItems: 1 }
            Key:
              type: object
              required: [name, scopes]
              properties:
                app: { type: [string, "null"], description: Null for every app }
                name: { type: string, maxLength: 100 }
                scopes: { type: array, items: { enum: [devices, send, read, admin] }, minItems: 1 }
                expires_at: { type: string, format: date-time }
            Registration:
              type: object
              required: [user, tokens]
              properties:
                user: { type: [string, "null"], maxLength: 256 }
                tokens: { type: array, maxItems: 20, items: { $ref: '#/components/schemas/Token' } }
                replaces: { type: string, description: A token that is over }
                expected_user: { type: [string, "null"], description: Refuse with 409 unless this user is signed in now }
                locale: { type: string, maxLength: 64 }
                time_zone: { type: string, maxLength: 64 }
                app_version: { type: string, maxLength: 64 }
                os_version: { type: string, maxLength: 64 }
                device_model: { type: string, maxLength: 64 }
                tags: { type: array, maxItems: 100, items: { type: string, maxLength: 64 } }
            Token:
              type: object
              required: [token]
              properties:
                token: { type: string, pattern: "^([0-9a-fA-F]{2}){1,256}$" }
                environment: { enum: [production, sandbox], default: production }
                purpose:
                  enum: [alert, voip, pushtotalk, location, complication, fileprovider, liveactivity, controls, widgets, mdm]
                  default: alert
            Logout: { type: object, properties: { expected_user: { type: [string, "null"] } } }
            TokenLogout:
              type: object
              required: [token]
              properties: { token: { type: string }, environment: { enum: [production, sandbox], description: Default both } }
            UserLogout: { type: object, properties: { except: { type: string, format: uuid } } }
            Notification:
              type: object
              required: [to, payload]
              properties:
                to:
                  oneOf:
                    - { type: object, required: [user], properties: { user: { type: string } } }
                    - { type: object, required: [installation], properties: { installation: { type: string, format: uuid } } }
                payload: { type: object, description: "The APNs body, passed on byte for byte; 4096 bytes, voip 5120" }
                push_type:
                  enum: [alert, background, voip, pushtotalk, location, complication, fileprovider, liveactivity, controls, widgets, mdm]
                  default: alert
                priority: { enum: [1, 5, 10] }
                collapse_id: { type: string, maxLength: 64 }
                expires_at: { type: string, format: date-time, description: At most 72 hours ahead }
                ttl_seconds: { type: integer, minimum: 1, maximum: 259200, description: Instead of expires_at; default a day }
                apns_expiration: { type: integer, description: "UNIX seconds, 0 for one try; default the expiry" }
                lane: { enum: [now, soon, bulk], default: now }
                on_unknown: { enum: [resend, drop], default: resend }
            Problem:
              type: object
              required: [type, title, status, code, detail, retryable]
              properties:
                type: { type: string }
                title: { type: string }
                status: { type: integer }
                code: { type: string }
                detail: { type: string }
                retryable: { type: boolean }
                errors:
                  type: array
                  items: { type: object, properties: { pointer: { type: string }, code: { type: string }, detail: { type: string } } }
        """#
}
