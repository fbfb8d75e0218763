import { SafeText } from '../text/safe-text.tsx';

export function Problem({ text }: { readonly text: string | undefined }) {
  return (
    <div role="alert">
      {text !== undefined && (
        <p class="problem">
          <SafeText text={text} most={600} />
        </p>
      )}
    </div>
  );
}
