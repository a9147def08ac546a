// Who is signed in: the API's record of the key, and what the key may do.

import { Problem, request, useKey } from "./api.js";
import { path } from "./paths.js";

export let me = null;

export const may = (...scopes) => me !== null && scopes.some(scope => me.scopes.includes(scope));

// The routes over every app need a key with the scope admin that is bound to no app.
export const mayAdminister = () => may("admin") && me.app === null;

// No scope includes another, so that an administrator's key alone sees few pages.
export const everyScope = "An administrator makes a key that sees every page: "
  + "pushctl keys create --name NAME --scopes devices,send,read,admin";

export const signIn = async text => {
  const key = text.trim();
  if (!/^psh_[0-9a-f]{16}_[0-9a-f]{48}$/.test(key)) {
    throw new Problem(401, { title: "This is no API key", detail: "A key is psh_, 16 hex digits, _ and 48 hex digits." });
  }
  useKey(key);
  try {
    me = await request("GET", path`/key`);
  } catch (problem) {
    signOut();
    throw problem;
  }
};

export const signOut = () => {
  useKey(null);
  me = null;
};
