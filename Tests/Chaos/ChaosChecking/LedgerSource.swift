package import ChaosLedger

/// Where the ledgers of one run come from. Each is read once, from its beginning to its end, in the order of its lines.
package protocol LedgerSource {
    func run() throws -> RunRecord
    func faults(_ body: (FaultRecord) -> Void) throws
    func devices(_ body: (DeviceRecord) -> Void) throws
    func clients(_ body: (ClientRecord) -> Void) throws
    func pushes(_ body: (Push) -> Void) throws
    func reported(_ body: (ReportedRecord) -> Void) throws
    func samples(_ body: (SampleRecord) -> Void) throws
}
