/** Elements without markup strings: nothing that comes from data is ever parsed as HTML. */

type Child = Node | string | null | false | undefined;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, string | boolean | null | undefined> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value != null && value !== false) element.setAttribute(name, value);
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

export function button(label: string, title: string, action: () => void, pressed?: boolean): HTMLButtonElement {
  const made = h("button", { type: "button", title, "aria-pressed": pressed === undefined ? null : String(pressed) }, label);
  made.addEventListener("click", action);
  return made;
}

export function one<T extends Element>(selector: string, root: ParentNode = document): T | null {
  return root.querySelector<T>(selector);
}

export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
