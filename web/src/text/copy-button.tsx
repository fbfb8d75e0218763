// Copies a text as it is, not as it is shown.

import { useEffect, useState } from 'preact/hooks';

const TOLD_MS = 1500;

export function CopyButton({
  text,
  label = 'Copy',
}: {
  readonly text: () => string;
  readonly label?: string;
}) {
  const [told, setTold] = useState<string>();
  useEffect(() => {
    if (told === undefined) return;
    const timer = setTimeout(() => setTold(undefined), TOLD_MS);
    return () => clearTimeout(timer);
  }, [told]);
  const copy = async () => setTold((await copied(text())) ? 'Copied' : 'Not allowed');
  return (
    <button type="button" class="small" onClick={copy}>
      <span aria-live="polite">{told ?? label}</span>
    </button>
  );
}

/** Pages that came without TLS have no clipboard; what is marked can still be copied the old way. */
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
