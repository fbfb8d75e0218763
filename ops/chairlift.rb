# Chairlift for Homebrew. `npm run package` fills in the package's address and checksum, as build/homebrew/chairlift.rb.
class Chairlift < Formula
  desc "Self-hosted LLM inference server with continuous batching"
  url "PACKAGE_URL"
  version "PACKAGE_VERSION"
  sha256 "PACKAGE_SHA256"
  license "MIT"

  depends_on "node"

  # The package brings the addon for Apple's processors and Intel's: nothing is compiled.
  def install
    system "npm", "install", *std_npm_args
    bin.install_symlink Dir["#{libexec}/bin/*"]
  end

  service do
    run [opt_bin/"chairlift", "serve"]
    keep_alive successful_exit: false
    environment_variables PATH: std_service_path_env, NODE_ENV: "production"
    error_log_path var/"log/chairlift.log"
    process_type :interactive
  end

  test do
    assert_match "This machine can serve", shell_output("#{bin}/chairlift doctor --port 0")
    system bin/"chairlift", "list"
  end
end
