//! The report in a real browser: nothing is wider than the page, on narrow and wide screens, in light and dark, with few and many
//! coefficients. Needs Chromium; screenshots are left in the target directory, to be looked at.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, noise};

/// The browser, if it is installed.
fn chromium() -> Option<PathBuf> {
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.is_file())
}

/// Measures the page after it was laid out, and writes the result into it.
const PROBE: &str = "<script>addEventListener('load', () => { const page = document.documentElement;
  parent.document.documentElement.setAttribute('data-found', [innerWidth, page.scrollWidth, getComputedStyle(document.body).backgroundColor,
    [...document.querySelectorAll('.forest svg')].every(svg => svg.getBoundingClientRect().width > 60)].join('|')) })</script>";

fn run(browser: &Path, scratch: &Scratch, width: u32, height: u32, is_dark: bool, flags: &[&str]) -> Vec<u8> {
    let profile = scratch.path("profile");
    let mut command = Command::new(browser);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--hide-scrollbars",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},{height}"))
        .args(flags);
    if is_dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    } else {
        command.arg("--blink-settings=preferredColorScheme=1");
    }
    command.output().expect("the browser runs").stdout
}

/// A page that shows another one in a frame of this width: a browser's window has a least width.
fn framed(html: &str, width: u32) -> String {
    let quoted = html.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>\
         <iframe width=\"{width}\" height=\"1600\" srcdoc=\"{quoted}\"></iframe>"
    )
}

/// A table with numbers and text columns of together about this many coefficients.
fn table(coefficients: usize) -> String {
    let levels = (coefficients / 3).clamp(2, 60);
    let numbers = coefficients - levels;
    let header: Vec<String> = (0..numbers).map(|c| format!("measurement_{c}")).collect();
    let mut text = format!("{},region,y\n", header.join(","));
    for row in 0..1_500 {
        let values: Vec<String> = (0..numbers).map(|c| format!("{:.3}", noise(row, c) * 10.0)).collect();
        let region = (noise(row, 500) * (levels as f64 + 1.0)) as usize;
        let odds = 0.3 * (noise(row, 0) * 10.0 - 5.0) + if region == 1 { 1.0 } else { 0.0 };
        let y = u8::from(noise(row, 501) < 1.0 / (1.0 + (-odds).exp()));
        text += &format!("{},a region with a long name {region},{y}\n", values.join(","));
    }
    text
}

#[test]
fn the_report_fits_every_screen() {
    let Some(browser) = chromium() else {
        println!("skipped: Chromium is not installed (Debian: apt-get install chromium)");
        return;
    };
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&pictures).expect("a directory");
    for coefficients in [5, 60, 200] {
        let scratch = Scratch::with_csv(table(coefficients));
        scratch.succeed("fit data.csv --label y --sampler laplace -o posterior.parquet --quiet");
        scratch.succeed("report posterior.parquet --data data.csv -o report.html --quiet");
        let html = String::from_utf8(scratch.read("report.html")).expect("text");
        let probed = html.replace("</body>", &format!("{PROBE}</body>"));
        for (width, is_dark) in [(400, false), (400, true), (1200, false), (1200, true)] {
            let page = |name: &str| format!("file://{}", scratch.path(name).display());
            scratch.write("probe.html", framed(&probed, width));
            scratch.write("shown.html", framed(&html, width));
            let dom = run(&browser, &scratch, width, 900, is_dark, &["--dump-dom", &page("probe.html")]);
            let dom = String::from_utf8_lossy(&dom).into_owned();
            let found = dom.split("data-found=\"").nth(1).and_then(|rest| rest.split('"').next());
            let found: Vec<&str> = found.unwrap_or_default().split('|').collect();
            let [inner, scrolled, background, strips] = found[..] else {
                panic!("nothing was measured: {found:?}")
            };
            assert_eq!(
                inner, scrolled,
                "{coefficients} coefficients at {width}: the page is wider than the screen"
            );
            assert_eq!(background == "rgb(13, 17, 23)", is_dark, "{background}");
            assert_eq!(strips, "true", "an interval has no room");
            let scheme = if is_dark { "dark" } else { "light" };
            let picture = pictures.join(format!("{coefficients}-{width}-{scheme}.png"));
            let shot = format!("--screenshot={}", picture.display());
            run(&browser, &scratch, width, 1600, is_dark, &[&shot, &page("shown.html")]);
            let size = std::fs::metadata(&picture).expect("a screenshot").len();
            assert!(size > 5_000, "{} is empty", picture.display());
        }
    }
}
