import Foundation
import PushModel
import StrictJSON

// How large a job is on the wire and how long it takes to write and to read, in each encoding: the figures of
// docs/decisions/job-encoding.md. Prints a table for people and, last, one line of JSON. Each figure is the median of rounds in which the
// codecs take turns.

let codecs: [any JobCodec] = [FoundationCodec(), JSONJobCodec(), ProtobufCodec()]
var figures: [Figure] = []
var hasFailed = false
for deliveries in [100, 1] {
    do { figures += try measure(codecs, .sample(deliveries: deliveries), rounds: 9) } catch {
        print("no figures of jobs of \(deliveries): \(error)")
        hasFailed = true
    }
}
printTable(figures)
printLine(figures, kept: ProtobufCodec().name)
if hasFailed { exit(1) }
