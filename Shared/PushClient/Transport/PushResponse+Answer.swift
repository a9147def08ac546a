import Foundation

extension PushResponse {
    /// What the machine must know of an answer.
    var answer: RegistrationMachine.Answer {
        struct Problem: Decodable { var code: String? }
        let code = status < 400 ? nil : (try? JSONDecoder().decode(Problem.self, from: body))?.code
        // The service sends seconds. A date is another server's, and then the delay's own length must do.
        let seconds = headers["retry-after"].flatMap { Int64($0.trimmingCharacters(in: .whitespaces)) }.map { max(0, $0) }
        return .response(status: status, code: code, retryAfter: seconds.map { .seconds($0) })
    }
}
