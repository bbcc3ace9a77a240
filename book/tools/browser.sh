# Find a Chromium for the browser tests, or get one: `browser.sh PYTHON`. Where neither works, those tests
# are skipped, and the last line of `make test` counts them.
for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
    command -v "$name" >/dev/null && exit 0
done
for app in 'Google Chrome' Chromium; do
    test -e "/Applications/$app.app/Contents/MacOS/$app" && exit 0
done
"$1" -c 'import pathlib, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as found:
    sys.exit(not pathlib.Path(found.chromium.executable_path).exists())' 2>/dev/null && exit 0
echo 'no Chromium is found; getting one for the browser tests'
timeout 300 "$1" -m playwright install chromium >/dev/null 2>&1 && exit 0
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 && exit 0
fi
echo 'none could be had: install the system package chromium, or the browser tests are left out'
