//! `tithe certify`: computes the certificate of a coreset, whatever method built it.

use serde_json::json;
use tithe::base::error::Result;
use tithe::coreset::Method;
use tithe::coreset::calibration::certificate::Verdict;
use tithe::coreset::certify::{CertifySettings, certify};
use tithe::coreset::file::read_coreset;
use tithe::engine::{Engine, LocalEngine};

use crate::args::CertifyArgs;
use crate::commands::certificate;
use crate::plan;
use crate::show::{self, Watcher, represented};

/// Computes and prints the certificate.
pub fn run(args: &CertifyArgs) -> Result<()> {
    let coreset = read_coreset(&args.coreset)?;
    let memory = plan::memory(&args.engine);
    let table = plan::open_full_data(&args.data, &coreset.encoding, memory, None, [])?;
    let watcher = Watcher::new(args.show.quiet);
    let missing = coreset.provenance.missing;
    let engine = LocalEngine::new(table, &plan::engine(&args.engine, missing), &watcher)?;
    let settings = CertifySettings { priors: args.priors.choice(), force: args.force };
    let found = certify(&engine, &coreset, &settings)?;
    let names = coreset.encoding.coefficient_names();
    let method = coreset.provenance.method;
    if args.show.json {
        let mut record = certificate::record_of(&names, &found.certificate, method);
        record["prior"] = json!(found.priors.to_string());
        let record = json!({
            "coreset": args.coreset,
            "method": method,
            "rows": found.identity.rows,
            "same_data": found.same_data,
            "distinct_rows": coreset.rows.len(),
            "certificate": record,
            "passes": engine.passes(),
        });
        show::print_record("certify", record);
    } else {
        show::print(&format!(
            "{}: {}\n{}",
            args.coreset.display(),
            represented(coreset.rows.len() as u64, found.identity.rows),
            certificate::lines_of(&names, &found.certificate, method)
        ));
    }
    if method != Method::Calibrated && matches!(found.certificate.verdict(), Verdict::TooSmall { .. }) {
        show::remark("note: calibrated coresets need far fewer rows (tithe build --method calibrated)");
    }
    if !found.same_data {
        show::remark("warning: this is not the data that the coreset was built from");
    }
    Ok(())
}
