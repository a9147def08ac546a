import PushModel

/// Messages from the broker. What is read is written so that it is read as the same.
enum FuzzMessage {
    static func run(_ bytes: [UInt8]) {
        let message = Array(bytes.dropFirst())
        if bytes.first.map({ $0 % 2 == 0 }) ?? true { outcome(message) } else { control(message) }
    }

    private static func outcome(_ bytes: [UInt8]) {
        do throws(MessageError) {
            let event = try OutcomeEvent(decoding: bytes)
            precondition(event.deliveries.count <= OutcomeEvent.maximumDeliveries)
            let again = try OutcomeEvent(decoding: event.encoded())
            precondition(again == event, "written as something else")
        } catch {
            precondition(!"\(error)".isEmpty)
        }
    }

    private static func control(_ bytes: [UInt8]) {
        let message: ControlMessage
        do throws(MessageError) { message = try ControlMessage(decoding: bytes) } catch { return precondition(!"\(error)".isEmpty) }
        do throws(MessageError) {
            let again = try ControlMessage(decoding: message.encoded())
            precondition(again == message, "written as something else")
        } catch {
            preconditionFailure("what was read cannot be written: \(error)")
        }
    }
}
