import StrictJSON
import Testing

@testable import PushCtl

@Suite("The output about notifications")
struct NotificationsCommandTests {
    private static func parse(_ text: String) throws -> JSONValue { try JSONValue.parse(Array(text.utf8)) }

    @Test("A list shows whom, when and how far") func list() throws {
        let rows = [
            try Self.parse(
                #"""
                {"id":"n1","accepted_at":"T1","state":"sending","to":{"kind":"user","user":"ada"},"lane":"now","push_type":"alert",\#
                "counts":{"total":2,"pending":1}}
                """#
            ),
            try Self.parse(
                #"""
                {"id":"n2","accepted_at":"T2","state":"completed","to":{"kind":"users","count":7},"lane":"soon","push_type":"alert",\#
                "counts":{"total":9,"pending":0}}
                """#
            ),
            try Self.parse(
                #"""
                {"id":"n3","accepted_at":"T3","state":"expanding","to":{"kind":"all"},"lane":"bulk","push_type":"alert",\#
                "counts":{"total":0,"pending":0}}
                """#
            ),
        ]
        #expect(
            notificationTable(rows).description == """
                NOTIFICATION  ACCEPTED  STATE      TO        LANE  TYPE   DELIVERIES  PENDING
                n1            T1        sending    user ada  now   alert  2           1
                n2            T2        completed  7 users   soon  alert  9           0
                n3            T3        expanding  all       bulk  alert  0           0
                """)
    }

    @Test("One notification shows how its deliveries ended, the pending ones first") func show() throws {
        let status = try Self.parse(
            #"""
            {"id":"n1","state":"sending","to":{"kind":"tags","tags":"a AND b"},"push_type":"alert","lane":"bulk","receipts":"failures",\#
            "accepted_at":"T1","expires_at":"T2","counts":{"pending":3},"reasons":[{"class":"accepted","status":200,"count":5},\#
            {"class":"token_gone","status":410,"reason":"Unregistered","count":1}]}
            """#
        )
        #expect(
            notificationFacts(status) == """
                n1, sending, to tags a AND b
                push type alert, lane bulk, receipts failures
                accepted_at T1
                expires_at T2
                """)
        let stopped = try Self.parse(
            #"""
            {"id":"n1","state":"cancelled","to":{"kind":"all"},"push_type":"alert","lane":"bulk","receipts":"all","accepted_at":"T1",\#
            "local_time":"L","expires_at":"T2","cancelled_at":"T3","cancel_reason":"superseded"}
            """#
        )
        #expect(
            notificationFacts(stopped) == """
                n1, cancelled, to all
                push type alert, lane bulk, receipts all
                accepted_at T1
                local_time L
                expires_at T2
                cancelled_at T3
                cancel_reason superseded
                """)
        #expect(
            outcomeTable(status).description == """
                OUTCOME     STATUS  REASON        DELIVERIES
                pending     -       -             3
                accepted    200     -             5
                token_gone  410     Unregistered  1
                """)
    }

    @Test("`why` goes step by step and names the parts that are not recorded") func why() throws {
        let answer = try Self.parse(
            #"""
            {"steps":[{"at":"T1","what":"accepted","why":"Accepted."},{"at":null,"what":"ended","why":"APNs accepted \#
            it.","detail":{"installation":"i1"}},{"at":"T2","what":"held","why":"An operator's hold.","detail":{"hold":"h1"}}]}
            """#
        )
        #expect(
            stepTable(answer).description == """
                WHEN          WHAT      INSTALLATION  WHY
                T1            accepted  -             Accepted.
                not recorded  ended     i1            APNs accepted it.
                T2            held      -             An operator's hold. Hold h1.
                """)
    }
}
