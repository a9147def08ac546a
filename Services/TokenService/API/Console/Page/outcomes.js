// The classes of outcomes, in four families that have one colour each. A class that this page does not know yet counts as failed.

export const families = [
  { name: "accepted", words: "accepted by APNs", classes: ["accepted"] },
  { name: "gone", words: "the device is gone", classes: ["token_gone", "token_rejected"] },
  { name: "stopped", words: "not sent", classes: ["expired", "fenced", "held", "cancelled", "throttled"] },
  { name: "failed", words: "failed", classes: ["rejected", "misconfigured", "failed", "unknown"] },
];

export const classes = families.flatMap(family => family.classes);

export const familyOf = outcome => (families.find(family => family.classes.includes(outcome)) ?? families[families.length - 1]).name;

const kinds = { accepted: "good", gone: "poor", stopped: "plain", failed: "bad" };
export const kindOf = outcome => outcome === "pending" ? "busy" : kinds[familyOf(outcome)];
