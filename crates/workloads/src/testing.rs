//! Helpers of the tests of generators.

/// Fails where counts deviate from the weights by more than chance explains: the chi-square
/// statistic, cells of small expectation pooled, must lie within 5 standard deviations.
pub(super) fn chi_square_ok(counts: &[u64], weights: &[f64]) {
    assert_eq!(counts.len(), weights.len());
    let draws: u64 = counts.iter().sum();
    let scale = draws as f64 / weights.iter().sum::<f64>();
    let (mut chi, mut cells) = (0.0, 0u32);
    let (mut pooled_count, mut pooled) = (0.0, 0.0);
    for (&count, weight) in counts.iter().zip(weights) {
        pooled_count += count as f64;
        pooled += weight * scale;
        if pooled >= 10.0 {
            chi += (pooled_count - pooled).powi(2) / pooled;
            cells += 1;
            (pooled_count, pooled) = (0.0, 0.0);
        }
    }
    let freedom = f64::from(cells.saturating_sub(1));
    let bound = freedom + 5.0 * (2.0 * freedom).sqrt();
    assert!(chi <= bound.max(1e-9), "chi-square {chi:.1} over {freedom} degrees of freedom");
}
