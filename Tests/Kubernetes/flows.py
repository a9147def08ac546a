"""Which pod may connect to which, by the NetworkPolicies of one rendering."""

from manifests import matches


def flows(manifests):
    """(from, to, port) for each pair of pods and each port that both sides permit."""
    return {
        (source.name, target.name, port)
        for source in manifests.pods for target in manifests.pods for port in target.ports().values()
        if source is not target
        and permits(manifests, "Egress", source, target, port) and permits(manifests, "Ingress", target, source, port)}


def permits(manifests, direction, pod, other, port):
    """Whether a policy of this direction permits the pod's connection with the other one. Without any policy, all is permitted."""
    rules_of, peers_of = ("egress", "to") if direction == "Egress" else ("ingress", "from")
    selecting = [
        policy["spec"] for policy in manifests.kind("NetworkPolicy")
        if direction in policy["spec"]["policyTypes"] and matches(policy["spec"]["podSelector"], pod.labels)]
    return not selecting or any(
        ("ports" not in rule or port in [each["port"] for each in rule["ports"]])
        and (peers_of not in rule or any(is_peer(manifests, peer, other) for peer in rule[peers_of]))
        for spec in selecting for rule in spec.get(rules_of, []))


def is_peer(manifests, peer, pod):
    if "ipBlock" in peer:
        return False        # addresses of the internet and of servers elsewhere
    if "namespaceSelector" in peer:
        namespace = manifests.kind("Namespace")[0]["metadata"]
        labels = namespace["labels"] | {"kubernetes.io/metadata.name": namespace["name"]}
        return matches(peer["namespaceSelector"], labels) and matches(peer.get("podSelector", {}), pod.labels)
    return matches(peer["podSelector"], pod.labels)
