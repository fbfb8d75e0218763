// A program to copy. The key in it is shown in part, and copied whole.

import { CopyButton } from './code-block.tsx';
import { Highlighted } from './highlight.tsx';

interface SnippetProps {
  readonly name: string;
  readonly language: string;
  readonly apiKey: string | undefined;
  readonly text: (key: string | undefined) => string;
}

export function Snippet({ name, language, apiKey, text }: SnippetProps) {
  return (
    <figure class="code">
      <figcaption>
        <span>{apiKey === undefined ? name : `${name}; what is copied has the whole key`}</span>
        <CopyButton text={() => text(apiKey)} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <pre tabIndex={0}>
        <code>
          <Highlighted text={text(apiKey && masked(apiKey))} language={language} />
        </code>
      </pre>
    </figure>
  );
}

export function masked(key: string): string {
  return `${key.slice(0, 6)}…${key.slice(-2)}`;
}

/** What clients call the base URL, at the address where the page is. */
export function baseUrl(): string {
  return new URL('v1', location.href.replace(/[?#].*/, '')).href;
}
