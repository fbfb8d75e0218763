// Text of SVG: elements, attributes and numbers, escaped and short.

type Attributes = Readonly<Record<string, string | number | undefined>>;

/** Children are markup; escape what is plain text. Attributes that are undefined are left out. */
export function element(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const given = Object.entries(attributes).filter(([, value]) => value !== undefined);
  const head = [name, ...given.map(([key, value]) => `${key}="${escapeText(String(value))}"`)].join(' ');
  return children.length === 0 ? `<${head}/>` : `<${head}>${children.join('')}</${name}>`;
}

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

export function escapeText(text: string): string {
  return text.replace(/[&<>"]/g, (character) => escapes[character] ?? character);
}

/** A tenth of a pixel is finer than any screen shows. */
export function pixel(value: number): number {
  return Math.round(value * 10) / 10;
}

const CHARACTER_SHARE = 0.58;

/** An estimate, on the wide side, since nothing measures text here. */
export function textWidth(text: string, fontSize: number): number {
  return text.length * fontSize * CHARACTER_SHARE;
}
