use hhd_guest::native::play;

#[test]
fn says_its_result_in_one_line() {
    let script = play(r#"{"iterations":"3"}"#, vec![], spin::run);
    assert_eq!(String::from_utf8(script.transcript).unwrap(), format!("spin: 3 iterations, result {:016x}\n", spin::spin(3)));
    assert!(script.asked.is_empty());
}

#[test]
fn the_default_is_two_million() {
    let script = play("{}", vec![], spin::run);
    assert!(String::from_utf8(script.transcript).unwrap().starts_with("spin: 2000000 iterations, "));
}

#[test]
#[should_panic(expected = "must be a whole number from 0 to")]
fn refuses_a_count_that_is_none() {
    play(r#"{"iterations":"-3"}"#, vec![], spin::run);
}

#[test]
#[should_panic(expected = "must be a whole number from 0 to")]
fn refuses_a_count_that_is_too_large() {
    play(r#"{"iterations":"99999999999999999999999"}"#, vec![], spin::run);
}

#[test]
#[should_panic(expected = "there is no argument named \"speed\"; there is: iterations")]
fn refuses_an_argument_it_does_not_know() {
    play(r#"{"speed":"9"}"#, vec![], spin::run);
}
