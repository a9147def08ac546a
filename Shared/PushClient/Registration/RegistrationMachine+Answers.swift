/// What an answer means.
extension RegistrationMachine {
    mutating func settle(_ upload: Upload, _ answer: Answer, random: Double) -> [Action] {
        guard case .response(let status, let code, let retryAfter) = answer else { return wait(nil, random: random) }
        switch status {
        case 200..<300: return finish(upload, status: status)
        case 401, 403: return unauthorised(upload, status: status, code: code, random: random)
        case 404 where upload.operation == .change || upload.operation == .reportActivity:
            // The server has forgotten the installation: the next token registers it anew, or those that are there.
            if case .reportActivity(let name, _, _) = upload {
                // The client has registered anew since the first 404, and gets another one: a proxy may not forward this route.
                guard unknownActivities.insert(name.instance).inserted else { return refuse(upload, status: status, code: code) }
            }
            record.server = .new
            stated = nil
            activities.forgetReports()
            return rest(saving: true)
        case 409 where code == "owner_mismatch":
            if [.signOut, .deregister].contains(upload.operation), case .exactly(let user?) = upload.expected,
                beliefBefore.mayHaveOwner(otherThan: user)
            {
                // The next request names another candidate.
                restoreBelief()
                record.server.end(user)
                return rest(saving: true)
            }
            // The belief was wrong. The next request expects nothing, and the backend's session or the credential decides.
            record.server = ServerBelief(existence: beliefBefore.existence, owners: nil, confirmed: nil)
            return rest(saving: true)
        case 408, 409, 425, 429, 500...: return wait(retryAfter, random: random)
        default: return refuse(upload, status: status, code: code)
        }
    }

    private mutating func finish(_ upload: Upload, status: Int) -> [Action] {
        record.server.finish(upload, before: beliefBefore)
        delay.reset()
        hasRenewed = false
        var actions: [Action] = []
        switch upload {
        case .register(let registration):
            // If a token came meanwhile, the comparison with the newer list finds the difference.
            stated = registration.list
            // The server had forgotten the installation, and its activities.
            if status == 201 { activities.forgetReports() }
            actions.append(.notice(.registered(user: registration.claim.user)))
            actions.append(restartFreshness())
        case .change: break
        case .signOut, .deregister:
            // The server ended the owner epoch, and the credential with it.
            actions += forgetCredential()
            actions.append(.notice(upload.operation == .signOut ? .signedOut : .deregistered))
            if upload.operation == .deregister {
                stated = Upload.TokenList()
                activities.forgetReports()
            }
        case .receipts(let receipts):
            record.receipts.remove(receipts)
            if record.receipts.pending.isEmpty { receiptsAreDue = false }
        case .reportActivity(let name, let token, _):
            activities.settle(token, of: name)
            record.activities.settle(name)
            unknownActivities.remove(name.instance)
        case .endActivity(let name): record.activities.removeEnd(of: name)
        }
        tidyActivities()
        return actions + rest(saving: true)
    }

    private mutating func restartFreshness() -> Action {
        // The receipts' timer has the odd numbers below zero.
        let timer = -2 * number - 2
        (freshnessTimer, isStale) = (timer, false)
        return .wake(after: rules.freshness, number: timer)
    }

    private mutating func unauthorised(_ upload: Upload, status: Int, code: String?, random: Double) -> [Action] {
        guard rules.needsCredential else { return refuse(upload, status: status, code: code) }
        if upload.operation == .signOut, code == "credential_revoked", let user = credential?.user {
            // The server revokes a credential when the owner epoch ends: this user is signed out already.
            restoreBelief()
            record.server.end(user)
            return forgetCredential() + [.notice(.signedOut)] + rest(saving: true)
        }
        // Of the sign-out of a user everywhere else, the installation that is left out keeps its user, and its credential can sign out
        // only.
        let mayStillSignOut = code == "credential_expired" || code == "credential_revoked" && credential?.user != nil
        restoreBelief()
        if upload.operation == .deregister, code == "credential_revoked", credential?.user == nil || hasRenewed {
            // The server has another user than this record knows, as after the restore of an old backup.
            record.server = ServerBelief(existence: .registered, owners: nil, confirmed: nil)
            hasRenewed = false
        }
        let turned = mayStillSignOut && upload.operation != .signOut ? spendCredential() : forgetCredential()
        guard !hasRenewed else {
            hasRenewed = false
            return turned + [.save] + wait(nil, random: random)
        }
        hasRenewed = true
        return turned + rest(saving: true)
    }

    mutating func settle(_ answer: CredentialAnswer, for user: String?, random: Double) -> [Action] {
        switch answer {
        case .granted(let granted):
            credential = HeldCredential(user: user, credential: granted)
            phase = .resting
            return [.saveCredential] + advance()
        case .failed: return wait(nil, random: random)
        case .refused where user != nil && user != record.desired.user:
            // The backend gives no credential of the former user any more. A registration that does not name that user ends their time too.
            record.server.owners = nil
            return rest(saving: true)
        case .refused:
            pause()
            // A backend may give no credentials without a user: then signed-out devices do not register.
            return (user == nil || isOutdated ? [] : [.notice(.signInRequired(user: user))]) + rest(saving: false)
        }
    }

    /// Gives the request up: the same one would be refused again. It changed nothing.
    private mutating func refuse(_ upload: Upload, status: Int, code: String?) -> [Action] {
        restoreBelief()
        let refusal = Action.notice(.refused(operation: upload.operation, status: status, code: code))
        if status == 401 || status == 403, !isOutdated, [.signOut, .deregister].contains(upload.operation),
            case .exactly(let user?) = upload.expected
        {
            setAside.insert(user)
            guard formerOwners.allSatisfy(setAside.contains) else { return rest(saving: true) }
            setAside = []
        }
        // No session helps a device without a user, if the server has no user for it either. The sign-out of a former user says nothing of
        // the session of the present one.
        let hasUser = record.desired.user.map { _ in upload.operation != .signOut } ?? record.server.mayHaveOwner(otherThan: nil)
        let signIn = hasUser ? Action.notice(.signInRequired(user: record.desired.user)) : nil
        if status == 401 || status == 403 && isOutdated {
            // The session is over, whatever the request was: it goes again when a user signs in, and at once if one has meanwhile.
            pause()
            return (isOutdated ? [] : [signIn].compactMap { $0 }) + rest(saving: true)
        }
        if (300..<400).contains(status) {
            // To a sign-in page, say. It is no answer of the platform's, and decides nothing about what the request says.
            pause()
            return (isOutdated ? [] : [refusal]) + rest(saving: true)
        }
        switch upload {
        case .receipts(let receipts): record.receipts.remove(receipts)
        case .reportActivity(let name, let token, _): activities.refuse(token, of: name)
        case .endActivity(let name): record.activities.removeEnd(of: name)
        case .register, .change, .signOut, .deregister: isRefused = !isOvertaken
        }
        return [status == 403 ? signIn ?? refusal : refusal] + rest(saving: true)
    }

    /// Sends nothing more until a user signs in, the state changes or a good moment comes. If one of the first two has come since the
    /// request left, it goes on.
    private mutating func pause() {
        isRefused = !isOutdated
        if isRefused { receiptsAreDue = false }
    }

    /// State or session have changed since the present request left.
    private var isOutdated: Bool { isOvertaken || hasNewSession }

    private mutating func wait(_ retryAfter: Duration?, random: Double) -> [Action] {
        number += 1
        phase = .waiting(mayHurry: retryAfter == nil)
        return [.wake(after: delay.next(random: random, retryAfter: retryAfter), number: number)]
    }

    private mutating func rest(saving: Bool) -> [Action] {
        phase = .resting
        return (saving ? [.save] : []) + advance()
    }

    private mutating func restoreBelief() { record.server = beliefBefore }

    private mutating func spendCredential() -> [Action] {
        credential?.isSpent = true
        return [.saveCredential]
    }

    private mutating func forgetCredential() -> [Action] {
        guard credential != nil else { return [] }
        credential = nil
        return [.saveCredential]
    }
}
