// Signs in and out, and shows the view that the address names.

import { request } from "./api.js";
import { forget } from "./ask.js";
import { byId, element, note, section, write } from "./dom.js";
import { follow, problemLines, stop } from "./follow.js";
import { form, labelled, text } from "./forms.js";
import { forgetToken } from "./installations.js";
import { hash, path } from "./paths.js";
import { allows, match, sections } from "./routes.js";
import { everyScope, mayAdminister, me, signIn, signOut } from "./session.js";

const show = (title, app, ...nodes) => {
  write(byId("heading"), title);
  document.title = [title, app !== title && app, "Push console"].filter(Boolean).join(" · ");
  byId("view").replaceChildren(...nodes);
};

const leave = () => {
  stop();
  forget();
  forgetToken();
  byId("trouble").replaceChildren();
};

const end = problem => {
  signOut();
  leave();
  open();
  if (problem) byId("failed").replaceChildren(...problemLines(problem));
};

const askForKey = () => {
  const field = text("key", "", { type: "password", required: true, "aria-describedby": "key-note" });
  const enter = async (_, fields) => {
    byId("failed").replaceChildren();
    try {
      await signIn(field.value);
      fields.reset();
      open();
      byId("heading").focus();
    } catch (problem) {
      byId("failed").replaceChildren(...problemLines(problem.status === 401 ? { ...problem, title: "The key is wrong" } : problem));
      field.select();
    }
  };
  show(
    "Sign in", null,
    element(
      "div", { class: "sign-in" }, form("Sign in", [labelled("API key", field)], "Sign in", enter),
      element(
        "p", { class: "note", id: "key-note" },
        "The key stays in the memory of this page: a reload asks for it again. A key with the scope read alone changes nothing.")));
  field.focus();
};

const item = ({ place, words, isHere }) =>
  element("li", {}, element("a", { href: hash(place), "aria-current": isHere && "page" }, words));

const showMenu = ({ view, at } = { at: {} }) => {
  byId("session").hidden = byId("sections").hidden = me === null;
  if (me === null) return byId("sections").replaceChildren();
  write(byId("who"), me.name + " (" + (me.app ?? "every app") + ": " + me.scopes.join(", ") + ")");
  byId("sections").replaceChildren(element(
    "ul", { role: "list" },
    mayAdminister() && item({ place: "/", words: "Apps", isHere: at.place === "/" }),
    at.app && element("li", { class: "app" }, at.app),
    sections(at.app).map(each => item({ place: each.place, words: each.view.section, isHere: each.view === view }))));
};

const open = () => {
  leave();
  const found = match(location.hash);
  showMenu(found ?? undefined);
  if (me === null) return askForKey();
  if (!found) {
    return show("There is no such page", null, note("The address names nothing that the console knows: ", location.hash, "."),
      element("p", {}, element("a", { href: hash("/") }, "Go to the first page")));
  }
  const { view, at } = found;
  if (at.place === "/" && me.app !== null) return location.replace(hash(path`/apps/${me.app}`));
  if (!allows(view)) {
    const needed = view.isAdministrative ? "a key with the scope admin that is bound to no app" : "the scope " + view.scopes.join(" or ");
    const others = sections(at.app).filter(each => each.place !== at.place);
    return show(
      view.title(at), at.app, note("This page needs " + needed + ". The key \"" + me.name + "\" does not have it."),
      ...others.length === 0 ? [] : [section(
        "What the key can open", element("ul", {}, others.map(each => element(
          "li", {}, element("a", { href: hash(each.place) }, each.view.section)))))],
      element("p", { class: "note" }, everyScope));
  }
  show(view.title(at), at.app);
  const refused = problem => {
    // The key has ended or was revoked.
    if (problem.status === 401) end(problem);
    return problem.status === 401;
  };
  follow(
    signal => view.load(at, (place, query) => request("GET", place, { query, signal })), answer => view.show(answer, at), refused,
    view.isStill);
};

byId("skip").onclick = () => byId("heading").focus();
byId("sign-out").onclick = () => end();
addEventListener("hashchange", () => {
  open();
  if (me !== null) byId("heading").focus();
});
// A page that the browser keeps for the back button must not keep the key.
addEventListener("pagehide", () => end());
open();
