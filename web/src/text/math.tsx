// Formulas in TeX as MathML, which browsers draw themselves. Until KaTeX is loaded, and where it finds an error, they stay TeX.

import { Lazy, useLazy } from './lazy.ts';
import { LongText } from './safe-text.tsx';

const katex = new Lazy(async () => (await import('katex')).default);

interface MathProps {
  readonly text: string;
  /** On lines of its own. */
  readonly display: boolean;
}

const MOST_CHARACTERS = 5000;

export function Formula({ text, display }: MathProps) {
  const drawn = useLazy(katex);
  const html = drawn && text.length <= MOST_CHARACTERS ? rendered(drawn, text, display) : undefined;
  const Part = display ? 'div' : 'span';
  if (html === undefined) {
    return (
      <Part class="formula">
        <code>
          <LongText text={text} />
        </code>
      </Part>
    );
  }
  // KaTeX escapes what it is given, and trusts no link or style in it.
  return <Part class="formula" dangerouslySetInnerHTML={{ __html: html }} />;
}

function rendered(
  drawn: typeof import('katex').default,
  text: string,
  displayMode: boolean,
): string | undefined {
  try {
    return drawn.renderToString(text, {
      displayMode,
      output: 'mathml',
      strict: 'ignore',
      trust: false,
      maxExpand: 500,
    });
  } catch {
    return undefined;
  }
}
