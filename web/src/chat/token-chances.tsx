// An answer token by token, with probabilities and alternatives. The darker, the less probable.

import { useState } from 'preact/hooks';
import { visible } from '../../../src/text/visible.ts';
import { Headings } from '../shell/table.tsx';
import { percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { Token } from './conversation.ts';

export function TokenChances({ tokens }: { readonly tokens: readonly Token[] }) {
  const [at, setAt] = useState(0);
  const chosen = tokens[at];
  const move = (by: number) => setAt(Math.min(tokens.length - 1, Math.max(0, at + by)));
  // One tab stop for all of them; the arrow keys move between tokens.
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -tokens.length, End: tokens.length }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(by);
  };
  const onClick = (event: MouseEvent) => {
    const index = (event.target as HTMLElement).dataset.at;
    if (index !== undefined) setAt(Number(index));
  };
  return (
    <div class="chances">
      <div
        class="chances-text"
        role="listbox"
        aria-label="Tokens"
        tabIndex={0}
        aria-activedescendant={`token-${at}`}
        onKeyDown={onKeyDown}
        onClick={onClick}
      >
        {tokens.map(({ text, logprob }, index) => (
          // biome-ignore lint/a11y/useFocusableInteractive: the list has the focus, and says which of them is meant
          <span
            key={index}
            id={`token-${index}`}
            role="option"
            aria-selected={index === at}
            data-at={index}
            data-chance={Math.min(4, Math.floor(5 * Math.exp(logprob)))}
          >
            {visible(text).replaceAll('\n', '⏎\n')}
          </span>
        ))}
      </div>
      {chosen && (
        <table class="plain-table" aria-live="polite">
          <caption>
            Token {at + 1} of {tokens.length}
          </caption>
          <Headings columns={['Token', { number: 'Probability' }]} />
          <tbody>
            {[chosen, ...chosen.others.filter(({ text }) => text !== chosen.text)].map((one, index) => (
              <tr key={index} aria-current={index === 0 ? 'true' : undefined}>
                <td>
                  <code>
                    <SafeText text={one.text.replaceAll('\n', '⏎')} most={60} />
                  </code>
                </td>
                <td class="number">{percent(Math.exp(one.logprob))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
