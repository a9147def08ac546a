import CryptoKit
import PushClient

/// The notification service extension. The system starts it for a payload with `mutable-content: 1`.
final class NotificationService: PushServiceExtension {
    override var steps: [any NotificationStep] {
        var steps: [any NotificationStep] = [
            DecryptionStep { name in Shop.key(named: name).map { SymmetricKey(data: $0) } },
            AttachmentStep(source: URLSessionAttachmentSource()),
        ]
        if let receipts = Shop.receipts { steps.append(ReceiptStep(folder: receipts)) }
        return steps
    }
}
