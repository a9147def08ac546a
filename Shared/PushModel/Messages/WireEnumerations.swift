/// Our enumerations and those of `push_job.proto`: one table each way, so that a new case cannot be forgotten.
extension Lane {
    init?(_ wire: WireLane) {
        switch wire {
        case .now: self = .now
        case .soon: self = .soon
        case .bulk: self = .bulk
        case .unspecified, .UNRECOGNIZED: return nil
        }
    }
}

extension WireLane {
    init(_ lane: Lane) {
        switch lane {
        case .now: self = .now
        case .soon: self = .soon
        case .bulk: self = .bulk
        }
    }
}

extension PushJob.OnUnknown {
    init?(_ wire: WireOnUnknown) {
        switch wire {
        case .resend: self = .resend
        case .resendOnce: self = .resendOnce
        case .drop: self = .drop
        case .unspecified, .UNRECOGNIZED: return nil
        }
    }
}

extension WireOnUnknown {
    init(_ policy: PushJob.OnUnknown) {
        switch policy {
        case .resend: self = .resend
        case .resendOnce: self = .resendOnce
        case .drop: self = .drop
        }
    }
}

extension APNsEnvironment {
    init?(_ wire: WireEnvironment) {
        switch wire {
        case .production: self = .production
        case .sandbox: self = .sandbox
        case .unspecified, .UNRECOGNIZED: return nil
        }
    }
}

extension WireEnvironment {
    init(_ environment: APNsEnvironment) {
        switch environment {
        case .production: self = .production
        case .sandbox: self = .sandbox
        }
    }
}

extension PushJob.EnvironmentTrial {
    /// A newer program's value is no trial that this one could make.
    init(_ wire: WireEnvironmentTrial) {
        switch wire {
        case .allowed: self = .allowed
        case .made: self = .made
        case .none, .UNRECOGNIZED: self = .none
        }
    }
}

extension WireEnvironmentTrial {
    init(_ trial: PushJob.EnvironmentTrial) {
        switch trial {
        case .none: self = .none
        case .allowed: self = .allowed
        case .made: self = .made
        }
    }
}

extension PushJob.EarlierOutcome {
    /// A newer program's value is at least an attempt that may have arrived.
    init(_ wire: WireEarlierOutcome) {
        switch wire {
        case .none: self = .none
        case .failed: self = .failed
        case .unknown, .UNRECOGNIZED: self = .unknown
        }
    }
}

extension WireEarlierOutcome {
    init(_ outcome: PushJob.EarlierOutcome) {
        switch outcome {
        case .none: self = .none
        case .failed: self = .failed
        case .unknown: self = .unknown
        }
    }
}
