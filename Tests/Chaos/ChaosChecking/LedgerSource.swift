package import ChaosLedger

/// The source of the ledgers of one run. The checker reads each ledger once, in the order of its lines.
package protocol LedgerSource {
    func run() throws -> RunRecord
    func faults(_ body: (FaultRecord) -> Void) throws
    func devices(_ body: (DeviceRecord) -> Void) throws
    func clients(_ body: (ClientRecord) -> Void) throws
    func pushes(_ body: (Push) -> Void) throws
    func reported(_ body: (ReportedRecord) -> Void) throws
    func shown(_ body: (ShownRecord) -> Void) throws
    func samples(_ body: (SampleRecord) -> Void) throws
}
