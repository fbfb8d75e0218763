// Code, and the button that copies a text as it was written.

import { useEffect, useState } from 'preact/hooks';
import { Highlighted } from './highlight.tsx';
import { SafeText } from './safe-text.tsx';

export function CodeBlock({ text, language: info }: { readonly text: string; readonly language: string }) {
  const language = info.split(/\s/)[0] ?? '';
  return (
    <figure class="code">
      <figcaption>
        <SafeText text={language || 'code'} most={30} />
        <CopyButton text={() => text} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <pre tabIndex={0}>
        <code>
          <Highlighted text={text} language={language.toLowerCase()} />
        </code>
      </pre>
    </figure>
  );
}

const SHOWN_MS = 1500;

export function CopyButton({
  text,
  label = 'Copy',
}: {
  readonly text: () => string;
  readonly label?: string;
}) {
  const [result, setResult] = useState<string>();
  useEffect(() => {
    if (result === undefined) return;
    const timer = setTimeout(() => setResult(undefined), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = async () => setResult((await copied(text())) ? 'Copied' : 'Not allowed');
  return (
    <button type="button" class="small" onClick={copy}>
      <span aria-live="polite">{result ?? label}</span>
    </button>
  );
}

/** Pages without TLS have no clipboard API. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'offscreen';
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}
