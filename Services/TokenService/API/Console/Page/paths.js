// Paths of the API and of this page: they have the same shape, and every value in them is percent-encoded.

export const path = (parts, ...values) => String.raw({ raw: parts }, ...values.map(value => encodeURIComponent(value)));

// With those parameters that have a value.
export const withQuery = (base, query = {}) => {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length === 0 ? base : base + "?" + given.map(([name, value]) => name + "=" + encodeURIComponent(value)).join("&");
};

export const hash = (base, query) => "#" + withQuery(base, query);

export const go = (base, query) => {
  location.hash = hash(base, query);
};
