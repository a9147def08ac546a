import Broker
import FoundationEssentials
import PushModel
import Synchronization
import TestSupport
import Testing
import TokenService

/// Plays the dispatchers and Apple for broadcast channels: takes the commands from the broker, keeps channels, and publishes answers.
final class AppleChannels: Sendable {
    /// What goes wrong with one command.
    enum Fault: Equatable, Sendable {
        case nothing
        /// It is carried out, and no answer comes.
        case answerLost
        /// It is not carried out, and no answer comes.
        case commandLost
        /// It is carried out, and the dispatcher does not learn that.
        case unanswered
        /// It is not carried out, and the dispatcher does not know that.
        case unansweredAndUndone
        /// It is carried out, and its answer comes after those of the next two commands.
        case late
        /// It is carried out, and its answer comes when the test says so.
        case held
        /// Its answer comes twice.
        case repeated
        case refused(Int, String)
        case noCredential
    }

    struct Place: Hashable, Sendable {
        var app: String
        var environment: APNsEnvironment
    }

    fileprivate struct State {
        var channels: [Place: [String: ChannelStorage]] = [:]
        var made = 0
        var commands: [ChannelCommand] = []
        var answers: [(body: [UInt8], after: Int)] = []
        var planned: [(operation: ChannelOperation, fault: Fault)] = []
    }

    /// Which fault a command has.
    private let fault: @Sendable (ChannelCommand) -> Fault
    private let state = Mutex(State())

    init(_ fault: @escaping @Sendable (ChannelCommand) -> Fault = { _ in .nothing }) { self.fault = fault }

    func channels(_ environment: APNsEnvironment = .production, app: String = "shop") -> [String: ChannelStorage] {
        state.withLock { $0.channels[Place(app: app, environment: environment)] ?? [:] }
    }

    /// Another program makes a channel.
    @discardableResult
    func make(_ storage: ChannelStorage = .none, in environment: APNsEnvironment = .production, app: String = "shop") -> String {
        state.withLock { $0.make(storage, Place(app: app, environment: environment)) }
    }

    /// Another program deletes a channel.
    func remove(_ id: String, in environment: APNsEnvironment = .production, app: String = "shop") {
        state.withLock { $0.channels[Place(app: app, environment: environment)]?[id] = nil }
    }

    /// The next command of that operation has this fault.
    func plan(_ fault: Fault, _ operation: ChannelOperation) { state.withLock { $0.planned.append((operation, fault)) } }

    var commands: [ChannelCommand] { state.withLock { $0.commands } }

    /// Answers commands while `body` runs.
    func serve(_ running: RunningService, _ body: @escaping @Sendable () async throws -> Void) async throws {
        try await running.tap(Subscription(queue: running.topology.commandsQueue, prefetch: 10)) { signal in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    while !Task.isCancelled {
                        let command = try ChannelCommand(decoding: try await signal.next().body)
                        for body in self.answers(to: command) { try await Self.publish(body, running) }
                    }
                }
                group.addTask {
                    try await body()
                    try await self.release(running)
                }
                defer { group.cancelAll() }
                // The first task never ends by itself.
                try await group.next()
            }
        }
    }

    /// In a task of its own: `serve` ends the task of the answers once it has seen what it waited for, and an answer may be on its way
    /// then.
    private static func publish(_ body: [UInt8], _ running: RunningService) async throws {
        try await Task { try await running.publishOutcome(body, routingKey: ChannelAnswer.routingKey) }.value
    }

    // MARK: One command

    private func answers(to command: ChannelCommand) -> [[UInt8]] {
        let usual = fault(command)
        return state.withLock { state in
            let fault = state.takePlanned(command.request.operation) ?? usual
            state.commands.append(command)
            for index in state.answers.indices { state.answers[index].after -= 1 }
            let due = state.answers.filter { $0.after <= 0 }.map(\.body)
            state.answers.removeAll { $0.after <= 0 }
            guard let own = state.answer(command, fault) else { return due }
            let body = own.encoded()
            switch fault {
            case .answerLost: return due
            case .late, .held:
                state.answers.append((body, fault == .late ? 3 : .max))
                return due
            case .repeated: return due + [body, body]
            default: return due + [body]
            }
        }
    }

    /// Publishes the answers that have not come yet.
    func release(_ running: RunningService) async throws {
        let bodies = state.withLock { state in
            defer { state.answers = [] }
            return state.answers.map(\.body)
        }
        for body in bodies { try await Self.publish(body, running) }
    }
}

extension AppleChannels.State {
    fileprivate mutating func takePlanned(_ operation: ChannelOperation) -> AppleChannels.Fault? {
        planned.firstIndex { $0.operation == operation }.map { planned.remove(at: $0).fault }
    }

    fileprivate mutating func make(_ storage: ChannelStorage, _ place: AppleChannels.Place) -> String {
        made += 1
        let id = Data("channel \(made)".utf8).base64EncodedString()
        channels[place, default: [:]][id] = storage
        return id
    }

    fileprivate mutating func answer(_ command: ChannelCommand, _ fault: AppleChannels.Fault) -> ChannelAnswer? {
        var answer = ChannelAnswer(
            id: .random(), source: "/push/dispatcher/test", time: UnixClock.now(), command: command.id, app: command.app,
            environment: command.environment, operation: command.request.operation, result: .done)
        switch fault {
        case .commandLost: return nil
        case .noCredential: answer.result = .noCredential
        case .unansweredAndUndone: answer.result = .unanswered
        case .refused(let status, let reason): (answer.result, answer.status, answer.reason) = (.refused, status, reason)
        case .unanswered:
            carryOut(command, &answer)
            answer = ChannelAnswer(
                id: answer.id, source: answer.source, time: answer.time, command: answer.command, app: answer.app,
                environment: answer.environment, operation: answer.operation, result: .unanswered, reason: "connection_lost")
        case .nothing, .answerLost, .late, .held, .repeated: carryOut(command, &answer)
        }
        return answer
    }

    private mutating func carryOut(_ command: ChannelCommand, _ answer: inout ChannelAnswer) {
        let place = AppleChannels.Place(app: command.app.text, environment: command.environment)
        let known = channels[place] ?? [:]
        switch command.request {
        case .create(let storage): (answer.status, answer.channelID, answer.storage) = (201, make(storage, place), storage)
        case .list: (answer.status, answer.channels) = (200, known.keys.sorted())
        case .read(let id):
            guard let storage = known[id.text] else { return answer.refuse("ChannelNotRegistered") }
            (answer.status, answer.channelID, answer.storage) = (200, id.text, storage)
        case .delete(let id):
            guard known[id.text] != nil else { return answer.refuse("ChannelNotRegistered") }
            channels[place]?[id.text] = nil
            (answer.status, answer.channelID) = (204, id.text)
        }
    }
}

extension ChannelAnswer {
    fileprivate mutating func refuse(_ reason: String) { (result, status, self.reason) = (.refused, 400, reason) }
}
