// Code as it was written, with a button that takes it along.

import { CopyButton } from './copy-button.tsx';
import { LongText } from './long-text.tsx';
import { SafeText } from './safe-text.tsx';

export function CodeBlock({ text, language }: { readonly text: string; readonly language: string }) {
  return (
    <figure class="code">
      <figcaption>
        <SafeText text={language.split(/\s/)[0] || 'code'} most={30} />
        <CopyButton text={() => text} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <pre tabIndex={0}>
        <code>
          <LongText text={text} />
        </code>
      </pre>
    </figure>
  );
}
