"""Rendered manifests, and what belongs to what in them."""

import re

import yaml

WORKLOADS = ("Deployment", "StatefulSet", "Job", "CronJob")


class Manifests:
    def __init__(self, documents):
        self.all = [document for document in documents if document]
        self.pods = [Pod(self, document) for document in self.all if document["kind"] in WORKLOADS]

    @classmethod
    def of_file(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls(yaml.safe_load_all(file))

    def kind(self, *kinds):
        return [document for document in self.all if document["kind"] in kinds]

    def named(self, kind, name):
        return next((document for document in self.kind(kind) if document["metadata"]["name"] == name), None)

    def selected(self, selector):
        return [pod for pod in self.pods if matches(selector, pod.labels)]


class Pod:
    """The pods that one Deployment, StatefulSet, Job or CronJob makes."""

    def __init__(self, manifests, owner):
        self.manifests, self.owner = manifests, owner
        self.kind, self.name = owner["kind"], owner["metadata"]["name"]
        spec = owner["spec"]["jobTemplate"]["spec"] if self.kind == "CronJob" else owner["spec"]
        self.template = spec["template"]
        self.spec = self.template["spec"]
        self.labels = self.template["metadata"]["labels"]
        self.containers = self.spec["containers"] + self.spec.get("initContainers", [])
        self.volumes = {volume["name"]: volume for volume in self.spec.get("volumes", [])}

    def __str__(self):
        return f"{self.kind} {self.name}"

    def program(self, container):
        """The program of this repository that the container runs; None for another one."""
        match = re.fullmatch(r"(?:.*/)?push/([\w-]+)[:@].*|push/([\w-]+)", container["image"])
        return match and (match[1] or match[2])

    def environment(self, container):
        """Each variable with its value, those of ConfigMaps included; None if Kubernetes computes it."""
        found = {}
        for source in container.get("envFrom", []):
            settings = self.manifests.named("ConfigMap", source.get("configMapRef", {}).get("name"))
            found |= settings["data"] if settings else {}
        return found | {variable["name"]: variable.get("value") for variable in container.get("env", [])}

    def ports(self):
        return {port["name"]: port["containerPort"] for container in self.containers for port in container.get("ports", [])}

    def has_file(self, container, path):
        """Whether a volume puts a file there. A Secret or ConfigMap without a list of items may hold any file."""
        for mount in container.get("volumeMounts", []):
            folder = mount["mountPath"].rstrip("/") + "/"
            if path.startswith(folder) and any(items is None or path[len(folder):] in items for items in self.items(mount["name"])):
                return True
        return False

    def items(self, volume):
        volume = self.volumes[volume]
        for source in [volume, *volume.get("projected", {}).get("sources", [])]:
            for kind in ("secret", "configMap"):
                if kind in source:
                    yield [item["path"] for item in source[kind]["items"]] if "items" in source[kind] else None

    def secrets(self):
        for volume in self.volumes.values():
            if "secret" in volume:
                yield volume["secret"]["secretName"]
            for source in volume.get("projected", {}).get("sources", []):
                if "secret" in source:
                    yield source["secret"]["name"]


def matches(selector, labels):
    """Kubernetes' label selector; an empty one matches everything."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for expression in selector.get("matchExpressions", []):
        is_in = labels.get(expression["key"]) in expression.get("values", [])
        if is_in != {"In": True, "NotIn": False}[expression["operator"]]:
            return False
    return True
