// Images and files that go with a message that is being written, each with a button that takes it out.

import { formatBytes } from '../../../src/text/byte-size.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { Attached } from './conversation.ts';

interface AttachedViewProps {
  readonly attached: Attached;
  readonly onChange: (attached: Attached) => void;
}

export function AttachedView({ attached, onChange }: AttachedViewProps) {
  const { images, files } = attached;
  return (
    <>
      {images.map(({ id, name, thumbnail }) => (
        <span class="chip" key={id}>
          <img class="thumbnail" src={thumbnail} alt={name} title={name} />
          <RemoveButton
            name={name}
            onRemove={() => onChange({ files, images: images.filter((other) => other.id !== id) })}
          />
        </span>
      ))}
      {files.map(({ name, text }, at) => (
        <span class="chip" key={at}>
          <SafeText text={name} most={40} /> {formatBytes(text.length)}
          <RemoveButton
            name={name}
            onRemove={() => onChange({ images, files: files.filter((_, other) => other !== at) })}
          />
        </span>
      ))}
    </>
  );
}

function RemoveButton({ name, onRemove }: { readonly name: string; readonly onRemove: () => void }) {
  return (
    <button type="button" class="small ghost" aria-label={`Remove ${name}`} onClick={onRemove}>
      ×
    </button>
  );
}
