// The bodies of fmt, compiled here once. Distributions ship fmt as headers and a shared library only; header-only use
// would compile these bodies again in every source (4.5 s of 5.5 s for a small file), and the program must run where
// libfmt is not installed.
#include <fmt/format-inl.h>

#include <locale>

// What fmt's headers declare and leave to its library.
template fmt::detail::locale_ref::locale_ref(const std::locale& locale);
template std::locale fmt::detail::locale_ref::get<std::locale>() const;
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl<char>(locale_ref locale);
template char fmt::detail::decimal_point_impl<char>(locale_ref locale);
template fmt::detail::dragonbox::decimal_fp<float> fmt::detail::dragonbox::to_decimal(float value) noexcept;
template fmt::detail::dragonbox::decimal_fp<double> fmt::detail::dragonbox::to_decimal(double value) noexcept;
