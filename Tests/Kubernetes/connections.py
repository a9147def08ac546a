"""The checks of check_manifests.py that are about connections: which ones the NetworkPolicies permit, and at which ports."""

from urllib.parse import urlsplit

from flows import flows
from manifests import matches

# Every connection from pod to pod that there may be, where both are in one rendering.
FLOWS = {
    ("token-service", "postgresql", 5432), ("token-service", "rabbitmq", 5672), ("migration", "postgresql", 5432),
    *((dispatcher, server, port) for dispatcher in ("dispatcher-now", "dispatcher-bulk")
      for server, port in (("rabbitmq", 5672), *(("apns-simulator", port) for port in (2195, 2196, 2197, 2198)))),
    ("demonstration", "token-service", 8080), ("demonstration", "apns-simulator", 2199),
}
PROMETHEUS = {"namespaceSelector": {"matchLabels": {"push/prometheus": "true"}}}
COLLECTOR = {"namespaceSelector": {"matchLabels": {"push/trace-collector": "true"}}}
# The programs that serve /healthz, /readyz and /metrics at OPERATIONS_PORT.
OPERATED = {"token-service", "dispatcher"}
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def check_network(manifests):
    policies = manifests.kind("NetworkPolicy")
    default = [each for each in policies if each["spec"]["podSelector"] == {} and not {"ingress", "egress"} & each["spec"].keys()]
    if not any(set(each["spec"]["policyTypes"]) == {"Ingress", "Egress"} for each in default):
        yield "no NetworkPolicy denies all connections that no other permits"
    for pod in manifests.pods:
        if not any(each["spec"]["podSelector"] and matches(each["spec"]["podSelector"], pod.labels) for each in policies):
            yield f"{pod}: no NetworkPolicy selects it"
    for policy in policies:
        name, spec = policy["metadata"]["name"], policy["spec"]
        selected = manifests.selected(spec["podSelector"])
        if not selected:
            yield f"NetworkPolicy {name}: it selects no pod"
        for rule in spec.get("ingress", []):
            if not rule.get("from"):
                yield f"NetworkPolicy {name}: it names no peer, so every pod may connect"
            ports = {port for pod in selected for port in pod.ports().values()}
            for port in {each["port"] for each in rule.get("ports", [])} - ports:
                yield f"NetworkPolicy {name}: no selected pod has the port {port}"
        for rule in spec.get("ingress", []) + spec.get("egress", []):
            for peer in rule.get("from", []) + rule.get("to", []):
                if peer.keys() == {"podSelector"} and not manifests.selected(peer["podSelector"]):
                    yield f"NetworkPolicy {name}: its podSelector {peer['podSelector']} selects no pod"


def check_flows(manifests):
    names = {pod.name for pod in manifests.pods}
    expected = {(source, target, port) for source, target, port in FLOWS if {source, target} <= names}
    found = flows(manifests)
    for source, target, port in sorted(found - expected):
        yield f"the NetworkPolicies let {source} connect to {target} at port {port}"
    for source, target, port in sorted(expected - found):
        yield f"no NetworkPolicy lets {source} connect to {target} at port {port}"


def check_operations(manifests):
    """Probes and metrics have the port OPERATIONS_PORT. Prometheus may connect to it and to no other port, and no other client may."""
    for pod in manifests.pods:
        container = pod.containers[0]
        if pod.kind != "Deployment" or pod.program(container) not in OPERATED:
            continue
        environment, port = pod.environment(container), pod.ports().get("operations")
        if environment.get("OPERATIONS_HOST") != "0.0.0.0" or environment.get("OPERATIONS_PORT") != str(port):
            yield f"{pod}: OPERATIONS_HOST must be 0.0.0.0, and OPERATIONS_PORT the container's port operations ({port})"
        for probe in PROBES:
            if container.get(probe, {}).get("httpGet", {}).get("port", "operations") != "operations":
                yield f"{pod}: {probe} must ask the port operations"
        permitted = {
            (str(peer), number)
            for policy in manifests.kind("NetworkPolicy") if matches(policy["spec"]["podSelector"], pod.labels)
            for rule in policy["spec"].get("ingress", []) for peer in rule.get("from", [])
            for number in ([each["port"] for each in rule["ports"]] if "ports" in rule else pod.ports().values())
            if peer == PROMETHEUS or number == port}
        for peer, number in sorted(permitted - {(str(PROMETHEUS), port)}):
            yield f"{pod}: a NetworkPolicy lets {peer} connect to port {number}; Prometheus may use {port}, and nothing else may"
        if (str(PROMETHEUS), port) not in permitted:
            yield f"{pod}: no NetworkPolicy lets Prometheus connect to port {port}"


def check_traces(manifests):
    """A program that sends spans may connect to the collector, and no other program may."""
    for pod in manifests.pods:
        endpoint = pod.environment(pod.containers[0]).get("OTEL_EXPORTER_OTLP_ENDPOINT")
        used = {urlsplit(endpoint).port} if endpoint else set()
        permitted = {
            port["port"]
            for policy in manifests.kind("NetworkPolicy") if matches(policy["spec"]["podSelector"], pod.labels)
            for rule in policy["spec"].get("egress", []) if COLLECTOR in rule.get("to", []) for port in rule["ports"]}
        if used != permitted:
            yield f"{pod}: it sends spans to {endpoint}, and the NetworkPolicies permit the ports {sorted(permitted)} of the collector"
